"""The command ``python studies/talby1999``, from a checkout with the package installed."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))

from studies.command import study_command
from studies.talby1999 import paper

if __name__ == "__main__":
    study_command(paper)
