"""The kind `infonce`: fine-tuning has the same loss."""

from pipeline.train.losses.shared.infonce import build as build
