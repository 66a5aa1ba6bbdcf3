"""Documents -> windows -> engine -> mentions -> documents."""
