"""One tiny random model of each family that takes the packed path."""

import torch
from transformers import (
    BertConfig,
    BertModel,
    CamembertConfig,
    CamembertModel,
    DistilBertConfig,
    DistilBertModel,
    ElectraConfig,
    ElectraModel,
    MPNetConfig,
    MPNetModel,
    PreTrainedModel,
    RobertaConfig,
    RobertaModel,
    XLMRobertaConfig,
    XLMRobertaModel,
)

from pipeline.teacher.kinds.hashing import letter_tokenizer

SHAPE = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
DISTILBERT = {"dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 32}
FAMILIES = {
    "bert": (BertConfig, BertModel, SHAPE),
    "bert with relu": (BertConfig, BertModel, {**SHAPE, "hidden_act": "relu"}),
    "electra": (ElectraConfig, ElectraModel, {**SHAPE, "embedding_size": 8}),
    "roberta": (RobertaConfig, RobertaModel, {**SHAPE, "pad_token_id": 0}),
    "xlm-r": (XLMRobertaConfig, XLMRobertaModel, {**SHAPE, "pad_token_id": 0}),
    "camembert": (CamembertConfig, CamembertModel, {**SHAPE, "pad_token_id": 0}),
    "mpnet": (MPNetConfig, MPNetModel, SHAPE),
    "distilbert": (DistilBertConfig, DistilBertModel, DISTILBERT),
}
POSITIONS = 90


def small_encoder(family: str) -> PreTrainedModel:
    """A model whose weights are large enough to tell a wrong path from a right one."""
    config_class, model_class, shape = FAMILIES[family]
    config = config_class(vocab_size=len(letter_tokenizer()), max_position_embeddings=POSITIONS, **shape)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        made = model_class(config).eval()
        for parameter in made.parameters():
            torch.nn.init.normal_(parameter, std=0.3)
    return made
