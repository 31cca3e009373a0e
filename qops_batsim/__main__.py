"""``python -m qops_batsim``: the command line."""

from qops_batsim.cli.main import main

if __name__ == "__main__":
    main()
