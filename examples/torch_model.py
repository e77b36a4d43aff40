"""A small model of PyTorch, whose operators become tuning tasks.

andiron tasks --from-torch examples/torch_model.py:make
"""

import torch
from torch import nn


class Classifier(nn.Module):
    """A convolution, attention over the pixels of its result, and scores of ten classes."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 32, 3, stride=2, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(32)
        self.layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
        self.head = nn.Linear(32, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.norm(self.conv(images)))
        x = self.layer(x.flatten(2).transpose(1, 2))
        return self.head(nn.functional.hardswish(x.mean(1)))


def make() -> tuple[nn.Module, tuple[torch.Tensor]]:
    """The model, and an example of its inputs."""
    return Classifier(), (torch.zeros(1, 3, 32, 32),)


if __name__ == "__main__":
    model, inputs = make()
    scores = model.eval()(*inputs)
    print("scores of", scores.shape[1], "classes")
