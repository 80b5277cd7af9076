"""PFedDST with its two phases in the other order: a variant of a published method without touching
its file.

repfl run --scale desk --artefact pfeddst/table2 --dataset cifar10 --plugin
bench/examples/header_first.py --method header-first
"""

from torch import Tensor

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
    """PFedDST whose header is fitted to the mixed extractor before the extractor trains, as in
    DFedPGP.
    """

    def train(self, fed: Federation, w: Tensor) -> Tensor:
        """Train the headers, then the extractors  [N, D]."""
        w = self.train_header(fed, w)
        return self.train_extractor(fed, w, first_epoch=self.hp.head_epochs)
