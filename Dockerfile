# A node in a container: docker build -t leveret . && docker run -p 5552:5552 -p 5672:5672 -p 15672:15672 -v leveret:/data leveret
FROM rust:1.95-bookworm AS build
WORKDIR /src
COPY . .
RUN cargo build --release --locked --package leveret

FROM debian:bookworm-slim
RUN useradd --system --home-dir /data --shell /usr/sbin/nologin leveret \
    && install --directory --owner=leveret --group=leveret --mode=0700 /data
# Nothing in the image runs as another user than who starts it.
RUN find / -xdev -type f -perm /6000 -exec chmod a-s {} +
COPY --from=build /src/target/release/leveret /usr/local/bin/leveret
# Operators' scripts and probes call it by these names.
RUN for name in rabbitmqctl rabbitmq-diagnostics rabbitmq-plugins rabbitmq-queues rabbitmq-streams rabbitmq-upgrade; do \
        ln -s leveret "/usr/local/bin/$name"; \
    done
USER leveret
# Where the command line finds the node.
ENV LEVERET_DATA_DIR=/data
VOLUME /data
EXPOSE 5552 5672 15672 15692
# Drains on SIGTERM, which is what a stop sends.
ENTRYPOINT ["leveret"]
CMD ["serve", "--data-dir", "/data", "--amqp", "0.0.0.0:5672", "--stream", "0.0.0.0:5552", "--http", "0.0.0.0:15672", "--metrics", "0.0.0.0:15692"]
