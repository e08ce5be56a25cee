"""The kind `hsic`: fine-tuning has the same loss."""

from pipeline.train.losses.shared.hsic import build as build
