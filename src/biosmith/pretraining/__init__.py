"""Sample order, masking, packing, objectives, optimizers, schedules, the loop, checkpoints."""
