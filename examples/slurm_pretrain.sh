#!/bin/bash
# Pretraining on two nodes of four GPUs each, under Slurm.
#
#   sbatch examples/slurm_pretrain.sh bert-base tokens/pubmed runs/bert-base
#
# `--resume` begins the run if there is none and goes on exactly if there is one, so the same line serves the first start, a
# requeue and a restart by torchrun. Slurm's SIGTERM (sent two minutes before the end by --signal) ends the step at hand with a
# checkpoint on all processes.

#SBATCH --job-name=biosmith-pretrain
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=32
#SBATCH --time=24:00:00
#SBATCH --signal=TERM@120
#SBATCH --requeue
#SBATCH --open-mode=append

set -euo pipefail
recipe=$1 tokens=$2 out=$3

head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
export OMP_NUM_THREADS=4
# Else a restart may look for processes of the attempt before under their old addresses.
export TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1

srun torchrun \
  --nnodes "$SLURM_JOB_NUM_NODES" --nproc-per-node 4 --max-restarts 3 \
  --rdzv-id "$SLURM_JOB_ID" --rdzv-backend c10d --rdzv-endpoint "$head:29500" \
  -m biosmith pretrain "$recipe" --profile fast --tokens "$tokens" --out "$out" --resume
