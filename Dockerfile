# A node in a container: docker build -t leveret . && docker run -p 5552:5552 -p 5672:5672 -p 15672:15672 -v leveret:/var/lib/rabbitmq leveret
#
# Configuration and data have the places that they have in RabbitMQ's image, so that what is mounted there for it serves as it is.
FROM rust:1.95-bookworm AS build
WORKDIR /src
COPY . .
RUN cargo build --release --locked --package leveret

FROM debian:bookworm-slim
# The user's number is that of RabbitMQ's image too: it may write to a volume of that one.
RUN groupadd --system --gid 999 leveret \
    && useradd --system --uid 999 --gid 999 --home-dir /var/lib/rabbitmq --shell /usr/sbin/nologin leveret \
    && install --directory --owner=leveret --group=leveret --mode=0700 /var/lib/rabbitmq \
    && install --directory /etc/rabbitmq/conf.d
# Nothing in the image runs as another user than who starts it.
RUN find / -xdev -type f -perm /6000 -exec chmod a-s {} +
COPY --from=build /src/target/release/leveret /usr/local/bin/leveret
# Operators' scripts and probes call it by these names.
RUN for name in rabbitmqctl rabbitmq-diagnostics rabbitmq-plugins rabbitmq-queues rabbitmq-streams rabbitmq-upgrade; do \
        ln -s leveret "/usr/local/bin/$name"; \
    done
USER leveret
# Where the node has its data, and where the command line finds it; the folder of its configuration; where it listens unless that
# says otherwise.
ENV LEVERET_DATA_DIR=/var/lib/rabbitmq/leveret \
    RABBITMQ_CONFIG_FILE=/etc/rabbitmq \
    LEVERET_LISTENERS_IP=0.0.0.0
VOLUME /var/lib/rabbitmq
EXPOSE 5552 5672 15672 15692
# Drains on SIGTERM, which is what a stop sends.
ENTRYPOINT ["leveret"]
CMD ["serve"]
