"""PFedDST with its two phases the other way round: how a variant of a published method is tried
without touching it.

repfl run --scale desk --artefact pfeddst/table2 --dataset cifar10 --plugin
bench/examples/header_first.py --method header-first
"""

from torch import Tensor

from repfl.algorithms.core.alternate import Phase, in_phases
from repfl.algorithms.core.chunk import still_cross_entropy
from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.method import register
from repfl.algorithms.pfeddst import PFedDST


@register(
    "header-first",
    title="PFedDST, header first",
    paper="a variant of PFedDST, 2025",
    year=2025,
    family="decentralised",
    needs=("p2p", "head"),
    sends="what PFedDST sends",
)
class HeaderFirst(PFedDST):
    """PFedDST whose header is fitted to the mixed extractor before the extractor trains, as DFedPGP
    does.
    """

    def train(self, fed: Federation, w: Tensor) -> None:
        """Header, then extractor, overwriting w [N, D]."""
        hp, head = self.hp, fed.layout.head
        rate = fed.sgd.lr if hp.head_lr is None else fed.sgd.lr * hp.head_lr / fed.protocol.lr
        header = Phase(
            head, hp.head_epochs, {"in_place": True, "objective": still_cross_entropy, "lr": rate}
        )
        extractor = Phase(
            fed.layout.learnable & ~head, int(fed.protocol.epochs), {"in_place": True}
        )
        in_phases(fed, w, [header, extractor])
