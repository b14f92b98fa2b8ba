"""Clients that are not let in, or reach nobody."""

from __future__ import annotations

from clienthealth.logs.also_seen._trouble import Trouble
from clienthealth.logs.wordings import Wording

_NODE = r"Connection to node (?P<node>-?\d{1,10}) (?:\((?P<address>[^()\s]{1,300})\) )?"

AUTHENTICATION = Trouble(
    "authentication failed",
    (
        Wording(
            "authentication-failed",
            {"java": "1.1 and newer, NetworkClient.processDisconnection"},
            "failed authentication due to",
            _NODE + r"failed authentication due to: (?!SSL )(?P<reason>[^\n]{1,300})",
        ),
        Wording(
            "terminated-during-authentication",
            {"java": "1.1 and newer, NetworkClient.processDisconnection"},
            "terminated during authentication",
            _NODE + r"(?P<reason>terminated during authentication)",
        ),
        Wording(
            "sasl-authentication-exception",
            {"java": "1.0 and newer, common/errors/SaslAuthenticationException"},
            "SaslAuthenticationException",
            r"\bSaslAuthenticationException: (?P<reason>[^\n]{1,300})",
        ),
        Wording(
            "jaas-entry-missing",
            {"java": "0.10.2 and newer, JaasContext.load; 0.9 and newer, JaasUtils"},
            "entry in the JAAS configuration",
            r"(?P<reason>Could not find a '[\w.-]{1,100}'[^\n]{0,100} entry in the JAAS configuration)",
        ),
        Wording(
            "librdkafka-sasl-failed",
            {"librdkafka": "rdkafka_broker.c, rd_kafka_broker_handle_SaslHandshake; rdkafka_sasl.c"},
            "SASL ",
            r"(?P<reason>SASL (?:authentication (?:error|failure)|[\w-]{1,40} mechanism handshake failed): "
            r"[^\n]{1,250})",
        ),
        Wording(
            "python-sasl-failed",
            {
                "kafka-python": "errors.py and conn.py (2.x), net/connection.py (3.x)",
                "aiokafka": "errors.py, SaslAuthenticationFailed; conn.py",
            },
            "uthenticationFailed",
            r"\b(?:Sasl)?AuthenticationFailed(?:Error)?: (?P<reason>[^\n]{1,250})",
        ),
        Wording(
            "kafka-python-reauthentication-failed",
            {"kafka-python": "3.0, net/connection.py"},
            "SASL re-authentication failed",
            r"SASL re-authentication failed: (?P<reason>[^\n]{1,250})",
        ),
        Wording(
            "sarama-sasl-failed",
            {"sarama": "client.go, tryRefreshMetadata; errors.go, ErrSASLAuthenticationFailed"},
            "SASL ",
            r"(?P<reason>client/metadata failed SASL authentication|kafka server: SASL [Aa]uthentication failed)",
        ),
        Wording(
            "franz-go-sasl-failed",
            {"franz-go": "kerr/kerr.go, SaslAuthenticationFailed"},
            "SASL_AUTHENTICATION_FAILED",
            r"SASL_AUTHENTICATION_FAILED: (?P<reason>[^\n]{1,250})",
        ),
        Wording(
            "kafka-go-sasl-failed",
            {"kafka-go": "error.go, SASLAuthenticationFailed"},
            "[58] SASL",
            r"\[58\] (?P<reason>SASL Authentication Failed[^\n]{0,250})",
        ),
        Wording(
            "kafkajs-sasl-failed",
            {"kafkajs": "errors.js, KafkaJSSASLAuthenticationError; broker/saslAuthenticator"},
            "SASLAuthenticationError",
            r"KafkaJSSASLAuthenticationError(?:: (?P<reason>[^\n]{1,250}))?",
        ),
    ),
    id="authentication",
    sentence="A broker did not let the client in: its mechanism, user, password or token is not accepted.",
    action="Correct the mechanism, the user or the secret on the side that is wrong; a secret may have been rotated.",
    unserved=True,
)

TLS = Trouble(
    "TLS failed",
    (
        Wording(
            "tls-handshake-failed",
            {"java": "1.1 and newer, NetworkClient.processDisconnection; SslTransportLayer"},
            "failed authentication due to: SSL",
            _NODE + r"failed authentication due to: (?P<reason>SSL [^\n]{1,300})",
        ),
        Wording(
            "ssl-authentication-exception",
            {"java": "1.0 and newer, common/errors/SslAuthenticationException"},
            "SslAuthenticationException",
            r"\bSslAuthenticationException: (?P<reason>[^\n]{1,300})",
        ),
        Wording(
            "keystore-unreadable",
            {"java": "SslEngineBuilder, since 2.6 DefaultSslEngineFactory"},
            "Failed to load SSL keystore",
            r"(?P<reason>Failed to load SSL keystore [^\n]{1,300})",
        ),
        Wording(
            "librdkafka-tls-failed",
            {"librdkafka": "rdkafka_transport.c, rd_kafka_transport_ssl_handshake"},
            "SSL handshake failed: ",
            r"(?P<address>ssl://\S{1,200}|sasl_ssl://\S{1,200}): (?P<reason>SSL handshake failed: [^\n]{1,250})",
        ),
        Wording(
            "kafka-python-tls-closed",
            {"kafka-python": "1.x and 2.x, conn.py, _try_handshake"},
            "SSL connection closed by server",
            r"(?P<reason>SSL connection closed by server during handshake)",
        ),
        Wording(
            "sarama-tls-failed",
            {"sarama": "broker.go, Open", "go": "crypto/tls and crypto/x509"},
            "ailed to connect to broker ",
            r"[Ff]ailed to connect to broker (?P<address>\S{1,300}): (?P<reason>(?:remote error: )?(?:tls|x509): "
            r"[^\n]{1,250})",
        ),
        Wording(
            "franz-go-tls-failed",
            {"franz-go": "kgo/broker.go, connect", "go": "crypto/tls and crypto/x509"},
            "unable to open connection to broker",
            r"unable to open connection to broker[^\n]{0,300}? unable to dial: "
            r"(?P<reason>(?:remote error: )?(?:tls|x509): [^\n]{1,250})",
        ),
    ),
    id="tls",
    sentence="The TLS handshake with a broker failed, so no connection came about.",
    action="Compare certificate, host name and trust store with what the broker presents (openssl s_client -connect), "
    "and the listener's protocol with the client's security.protocol.",
    unserved=True,
)

AUTHORISATION = Trouble(
    "not authorised",
    (
        Wording(
            "topic-denied-in-metadata",
            {"java": "NetworkClient, DefaultMetadataUpdater.handleSuccessfulResponse"},
            "TOPIC_AUTHORIZATION_FAILED",
            r"with correlation id \d+ ?: \{[^{}\n]{0,2000}?=TOPIC_AUTHORIZATION_FAILED",
        ),
        Wording(
            "authorization-exception",
            {"java": "common/errors/TopicAuthorizationException and GroupAuthorizationException"},
            "Not authorized to access ",
            r"Not authorized to access (?:topics: \[[^\]\n]{0,500}\]|group: [^\n]{1,300})",
        ),
        Wording(
            "authorization-failed",
            {
                "java": "Metadata.checkUnauthorizedTopics; common/protocol/Errors",
                "librdkafka": "rdkafka.c, rd_kafka_err_descs",
                "franz-go": "kerr/kerr.go",
                "kafkajs": "protocol/error.js",
            },
            "uthorization failed",
            r"(?:Topic authorization failed for topics \[|(?:Topic|Group|Cluster|Transactional Id) authorization "
            r"failed\b(?! for))",
        ),
        Wording(
            "python-authorization-failed",
            {"kafka-python": "errors.py", "aiokafka": "errors.py"},
            "AuthorizationFailedError",
            r"\b(?:Topic|Group|Cluster|TransactionalId)AuthorizationFailedError\b",
        ),
        Wording(
            "python-topic-denied",
            {"kafka-python": "cluster.py, update_metadata", "aiokafka": "cluster.py, update_metadata"},
            "is not authorized for this client",
            r"\bTopic [\w.-]{1,249} is not authorized for this client",
        ),
        Wording(
            "sarama-authorization-failed",
            {"sarama": "errors.go, ErrTopicAuthorizationFailed and its like"},
            "lient is not authorized to ",
            r"[Cc]lient is not authorized to (?:access this (?:topic|group)|send this request type)",
        ),
        Wording(
            "kafka-go-authorization-failed",
            {"kafka-go": "error.go, TopicAuthorizationFailed and its like"},
            "Authorization Failed",
            r"\[(?:29|30|31|53)\] (?:Topic|Group|Cluster|Transactional ID) Authorization Failed",
        ),
    ),
    id="authorisation",
    sentence="The brokers know the client, and refuse it a topic, a group or an operation.",
    action="Grant what the line names to the client's principal (kafka-acls --list shows what it has), or correct the "
    "name in its configuration.",
)

BROKERS_DOWN = Trouble(
    "all brokers down",
    (
        Wording(
            "librdkafka-all-brokers-down",
            {"librdkafka": "rdkafka.c, RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN"},
            "All broker connections are down",
            r"Local: All broker connections are down",
        ),
        Wording(
            "librdkafka-brokers-down",
            {"librdkafka": "rdkafka_broker.c, rd_kafka_broker_set_state"},
            "brokers are down",
            r"(?P<down>\b\d{1,6})/(?P<brokers>\d{1,6}) brokers are down",
        ),
        Wording(
            "no-resolvable-bootstrap",
            {"java": "ClientUtils.parseAndValidateAddresses"},
            "No resolvable bootstrap urls",
            r"No resolvable bootstrap urls given in bootstrap\.servers",
        ),
        Wording(
            "python-no-brokers",
            {"kafka-python": "errors.py, NoBrokersAvailable"},
            "NoBrokersAvailable",
            r"\bNoBrokersAvailable\b",
        ),
        Wording(
            "python-not-bootstrapped",
            {"aiokafka": "client.py, bootstrap", "kafka-python": "3.0, net/manager.py, bootstrap"},
            "Unable to bootstrap from",
            r"\bKafka(?:Connection|Timeout)Error: Unable to bootstrap from\b",
        ),
        Wording(
            "sarama-no-brokers",
            {"sarama": "errors.go, ErrOutOfBrokers"},
            "run out of available brokers",
            r"kafka: [Cc]lient has run out of available brokers to talk to",
        ),
        Wording(
            "kafkajs-no-brokers",
            {"kafkajs": "cluster/brokerPool.js, connect"},
            "Failed to connect to seed broker",
            r"\[BrokerPool\] Failed to connect to seed broker",
        ),
    ),
    id="all-brokers-down",
    sentence="The client could reach none of its brokers.",
    action="Try the address that it uses from where it runs (nc -vz HOST PORT); look at the brokers, the name service "
    "and the network between.",
    unserved=True,
)

UNKNOWN_CONFIGURATION = Trouble(
    "unknown configuration",
    (
        Wording(
            "option-unknown",
            {"java": "up to 3.2, AbstractConfig.logUnused"},
            "a known config",
            r"The configuration [^\n]{1,300}? was supplied but isn't a known config",
        ),
        Wording(
            "librdkafka-option-unknown",
            {"librdkafka": "rdkafka_conf.c, rd_kafka_anyconf_set"},
            "No such configuration property",
            r"No such configuration property: \\?\"(?P<option>[^\"\\\n]{1,200})",
        ),
        Wording(
            "librdkafka-option-of-others",
            {"librdkafka": "rdkafka_conf.c, rd_kafka_anyconf_warn_deprecated and rd_kafka_conf_warn"},
            "onfiguration property ",
            r"Configuration property (?P<option>[\w.]{1,200}) is a (?:producer|consumer) property and will be ignored",
        ),
        Wording(
            "python-option-unknown",
            {"kafka-python": "producer/kafka.py and consumer/group.py"},
            "Unrecognized configs: ",
            r"\b(?:KafkaConfigurationError|AssertionError|ValueError): Unrecognized configs: ",
        ),
    ),
    id="unknown-configuration",
    sentence="The client was given options that it does not know and does not use.",
    action="Compare their spelling with the documentation of the library: what was meant to be set keeps its default.",
)
