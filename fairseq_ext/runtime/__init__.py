"""Translating with an exported system by ONNX Runtime, numpy and sentencepiece: without torch, without fairseq."""
