"""Users who react: their model, how it is fitted to a log, and a scheduler that includes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qops_batsim.lazy import lazy_names

if TYPE_CHECKING:
    from qops_batsim.users.reacting import Reacting as Reacting
    from qops_batsim.users.reacting import Wish as Wish
    from qops_batsim.users.user_fit import LoggedJob as LoggedJob
    from qops_batsim.users.user_fit import fit_users as fit_users
    from qops_batsim.users.user_fit import summary as summary
    from qops_batsim.users.user_fit import users_of as users_of
    from qops_batsim.users.user_model import Reactions as Reactions
    from qops_batsim.users.user_model import Users as Users
    from qops_batsim.users.user_model import more_users as more_users
    from qops_batsim.users.user_model import read_users as read_users
    from qops_batsim.users.user_model import rotated as rotated
    from qops_batsim.users.user_model import write_users as write_users
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "user_fit": "LoggedJob fit_users summary users_of",
            "user_model": "Reactions Users more_users read_users rotated write_users",
            "reacting": "Reacting Wish",
        },
    )
