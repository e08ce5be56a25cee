"""The engine `ctranslate2`: models converted once, on the CPU or a CUDA GPU."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.augment.back_translation.codec import Codec
from pipeline.augment.back_translation.models import BLOCK, Model
from pipeline.core import fingerprint, seal
from pipeline.core.atomic import atomic_folder, remove_folder
from pipeline.core.errors import UserError
from pipeline.core.progress import say
from pipeline.params.augment import BackTranslationAugment, Sampling

if TYPE_CHECKING:
    import ctranslate2

CONVERTED = "ctranslate2"
"""The folder of converted models in the cache."""
EMBEDDINGS = {"model.shared.weight", "model.decoder.embed_tokens.weight"}


class Translator:
    """A pivot's models in turn."""

    def __init__(
        self, pivot: Sequence[Model], params: BackTranslationAugment, device: str, cache: Path
    ) -> None:
        import torch

        self._params = params
        # ctranslate2 shares torch's OpenMP, whose number of threads it changes for the whole process.
        self._threads = torch.get_num_threads()
        self._device = device_of(device)
        _check_compute_type(params, self._device)
        self._steps = [
            (Codec(model, params.max_length), convert(model, params.compute_type, cache)) for model in pivot
        ]
        self._open: dict[Path, ctranslate2.Translator] = {}

    def translate(self, texts: Sequence[str], seed: int) -> list[str]:
        """The texts through all models; `seed` decides what sampling draws."""
        import ctranslate2
        import torch

        if isinstance(self._params.decoding, Sampling):
            # A worker thread draws from a generator of its own, seeded when the thread first draws.
            self._open.clear()
            ctranslate2.set_random_seed(seed)
        found = list(texts)
        for codec, folder in self._steps:
            found = self._step(codec, folder, found)
        torch.set_num_threads(self._threads)
        return found

    def _step(self, codec: Codec, folder: Path, texts: list[str]) -> list[str]:
        tokenizer = codec.tokenizer
        begin = None if codec.forced is None else tokenizer.convert_ids_to_tokens([codec.forced])
        results = self._translator(folder).translate_batch(
            [tokenizer.convert_ids_to_tokens(ids) for ids in codec.encode(texts)],
            target_prefix=[begin] * len(texts) if begin else None,
            max_batch_size=self._params.tokens_per_batch,
            batch_type="tokens",
            max_input_length=0,
            max_decoding_length=self._params.max_length,
            **_decoding(self._params),
        )
        tokens = [result.hypotheses[0] for result in results]
        return codec.decode([tokenizer.convert_tokens_to_ids(row) for row in tokens])

    def _translator(self, folder: Path) -> "ctranslate2.Translator":
        """The model of a converted folder, loaded once; one worker, so that draws come in one order."""
        import ctranslate2

        if folder not in self._open:
            device, _, index = self._device.partition(":")
            try:
                self._open[folder] = ctranslate2.Translator(
                    str(folder),
                    device=device,
                    device_index=int(index or 0),
                    compute_type=self._params.compute_type,
                    inter_threads=1,
                    intra_threads=self._threads,
                )
            except (RuntimeError, ValueError) as error:
                raise UserError(f"{folder} cannot be loaded ({error}); remove it, it is made anew") from None
        return self._open[folder]


def convert(model: Model, compute_type: str, cache: Path) -> Path:
    """The folder of a model in ctranslate2's format, in the cache; converted if it is not there yet.

    Raises:
        UserError: ctranslate2 cannot convert it.
    """
    import ctranslate2
    from ctranslate2.converters import TransformersConverter

    check_convertible(model)
    made_of = {"weights": model.weights, "type": compute_type, "ctranslate2": ctranslate2.__version__}
    folder = cache / CONVERTED / fingerprint.of_json(made_of)[:16]
    if folder.is_dir() and (wrong := seal.fault_of_own(folder)):
        say(f"{wrong}; it is made again")
        remove_folder(folder)
    if not folder.is_dir():
        say(f"converting {model.folder.name} for ctranslate2 ({compute_type})")
        with atomic_folder(folder) as temporary:
            try:
                TransformersConverter(str(model.folder)).convert(
                    str(temporary), quantization=compute_type, force=True
                )
            except (ValueError, RuntimeError, KeyError) as error:
                raise UserError(
                    f"{model.key}.model: ctranslate2 cannot convert {model.folder.name} ({error}); "
                    f"set {BLOCK}.engine to transformers"
                ) from None
    return folder


def check_convertible(model: Model) -> None:
    """Fail for a model that ctranslate2 does not take, as far as its folder tells; nothing is loaded.

    Raises:
        UserError: naming the engine that takes it.
    """
    if model.kind == "fsmt" or model.config.get("share_encoder_decoder_embeddings") is False:
        what = "FSMT models" if model.kind == "fsmt" else "Marian models with two vocabularies"
        raise UserError(
            f"{model.key}.model: ctranslate2 cannot convert {what} ({model.folder.name}); "
            f"set {BLOCK}.engine to transformers"
        )
    if model.kind == "marian" and not _starts_from_zero(model):
        raise UserError(
            f"{model.key}.model: {model.folder.name} has weights for the padding token, from which it "
            f"begins; ctranslate2 lets Marian models begin from zeros: set {BLOCK}.engine to transformers"
        )


def _starts_from_zero(model: Model) -> bool:
    """Whether the vector of the padding token, a Marian model's first, is zero, as Marian itself has it."""
    from safetensors import SafetensorError, safe_open

    row = int(model.config["pad_token_id"])
    for file in sorted(model.folder.glob("*.safetensors")):
        try:
            with safe_open(file, framework="pt") as weights:
                for name in EMBEDDINGS.intersection(weights.keys()):
                    if bool(weights.get_slice(name)[row : row + 1].any()):
                        return False
        except (OSError, SafetensorError) as error:
            raise UserError(
                f"{model.key}.model: {model.folder.name}/{file.name} cannot be read ({error}); get it again"
            ) from None
    return True


def device_of(wanted: str) -> str:
    """ctranslate2's device for `runtime.device`.

    Raises:
        UserError: it has no such device.
    """
    import ctranslate2

    gpus = ctranslate2.get_cuda_device_count()
    if wanted == "auto":
        return "cuda" if gpus else "cpu"
    if wanted == "mps" or (wanted.startswith("cuda") and int(wanted.partition(":")[2] or 0) >= gpus):
        raise UserError(
            f"runtime.device is {wanted!r}, and ctranslate2 sees {gpus} CUDA GPUs; set it to auto or cpu, or "
            f"{BLOCK}.engine to transformers"
        )
    return wanted


def _check_compute_type(params: BackTranslationAugment, device: str) -> None:
    import ctranslate2

    name, _, index = device.partition(":")
    known = ctranslate2.get_supported_compute_types(name, int(index or 0))
    if params.compute_type not in known:
        raise UserError(
            f"{BLOCK}.compute_type is {params.compute_type!r}, which {device} does not have; "
            f"choose one of {', '.join(sorted(known & {'float32', 'float16', 'bfloat16', 'int8'}))}"
        )


def _decoding(params: BackTranslationAugment) -> dict[str, Any]:
    if isinstance(params.decoding, Sampling):
        draw = {"sampling_topk": params.decoding.top_k, "sampling_temperature": params.decoding.temperature}
        return {"beam_size": 1, **draw}
    return {"beam_size": params.decoding.size}
