"""Translation with an exported system using ONNX Runtime, NumPy and SentencePiece, without PyTorch and fairseq."""
