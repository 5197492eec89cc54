# docker build -t fairseq_ext .                            torch for CPUs
# docker build -t fairseq_ext --build-arg TORCH=cuda .     torch for GPUs; run with --gpus all
# docker run -it -v "$PWD/runs:/fairseq_ext/runs" fairseq_ext bash scripts/quickstart.sh
FROM python:3.12-slim-bookworm
RUN apt-get update && apt-get install -y --no-install-recommends g++ && rm -rf /var/lib/apt/lists/*
WORKDIR /fairseq_ext
COPY . .
ARG TORCH=cpu
RUN TORCH=$TORCH bash scripts/fairseq-ext --help
CMD ["bash"]
