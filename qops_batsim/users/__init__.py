"""Users who react: a model of users, fitted from a log, and schedulers beside which they act."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qops_batsim.lazy import lazy_names

if TYPE_CHECKING:
    from qops_batsim.users.fit import fit_users as fit_users
    from qops_batsim.users.model import Reactions as Reactions
    from qops_batsim.users.model import Users as Users
    from qops_batsim.users.model import more_users as more_users
    from qops_batsim.users.model import read_users as read_users
    from qops_batsim.users.model import write_users as write_users
    from qops_batsim.users.reacting import Reacting as Reacting
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "fit": "fit_users",
            "model": "Reactions Users more_users read_users write_users",
            "reacting": "Reacting",
        },
    )
