# Two targets, one image each; `vgi` is the entry point and does not run as root.
#
#   docker build --target cpu --build-arg TORCH_INDEX=ADDRESS -t vgi .     ADDRESS: the package index of the CPU builds of
#                                                                          torch, after --index-url on PyTorch's "Get started" page
#   docker build --target gpu -t vgi:gpu .                                 torch as pip finds it by default (CUDA, Linux)
#
#   docker run --rm -v "$PWD":/data vgi fit table.csv
#   docker run --rm --gpus all -v "$PWD":/data vgi:gpu fit table.csv --device cuda
#
# TORCH_INDEX also chooses another CUDA version for `gpu`. A target that gets the wrong kind of torch stops with a message.
ARG PYTHON=3.12

FROM python:${PYTHON}-slim AS tools
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /src

# The program itself: a wheel of some hundred kilobytes.
FROM tools AS wheel
COPY pyproject.toml README.md LICENSE ./
COPY vgi_cli vgi_cli
COPY recipes recipes
RUN pip wheel --quiet --no-deps --wheel-dir /dist .

# What it needs, at the tested versions: a layer that changes only when these two files do.
FROM tools AS needs
ARG TORCH_INDEX=""
COPY constraints.txt pyproject.toml ./
RUN python -m venv --without-pip /opt/venv \
 && pip --python /opt/venv/bin/python install --quiet -c constraints.txt ${TORCH_INDEX:+--index-url "$TORCH_INDEX"} torch
RUN python -c "import tomllib; project = tomllib.load(open('pyproject.toml', 'rb'))['project']; \
      extras = project['optional-dependencies']; print(*project['dependencies'], *extras['fast'], *extras['report'], sep='\n')" \
      > needs.txt \
 && pip --python /opt/venv/bin/python install --quiet -c constraints.txt -r needs.txt

FROM python:${PYTHON}-slim AS runtime
RUN useradd --uid 1000 --create-home vgi && install --directory --owner=vgi --group=vgi /data
ENV PATH=/opt/venv/bin:$PATH MPLCONFIGDIR=/tmp/matplotlib
COPY --from=needs /opt/venv /opt/venv
RUN --mount=type=bind,from=wheel,source=/dist,target=/dist \
    pip --python /opt/venv/bin/python install --quiet --no-cache-dir --no-index --no-deps /dist/*.whl
USER vgi
WORKDIR /data
ENTRYPOINT ["vgi"]
CMD ["--help"]

# Triton, which compiles the splines of flows for the GPU at hand, calls a C compiler when they are first needed.
FROM runtime AS gpu
USER root
RUN apt-get update && apt-get install --yes --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
USER vgi
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
RUN ["python", "-c", "import sys, torch; torch.version.cuda or sys.exit('target gpu: this torch is built for the CPU only')"]

FROM runtime AS cpu
RUN ["python", "-c", "import sys, torch; torch.version.cuda and sys.exit('target cpu: this torch brings CUDA; set TORCH_INDEX')"]
