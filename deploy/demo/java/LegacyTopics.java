import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.LongAdder;
import java.util.concurrent.locks.LockSupport;
import kafka.consumer.Consumer;
import kafka.consumer.ConsumerConfig;
import kafka.consumer.ConsumerIterator;
import kafka.consumer.KafkaStream;
import kafka.javaapi.consumer.ConsumerConnector;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Consumes several topics with kafka 0.8.2.1's ZookeeperConsumerConnector. After a while the threads of one topic
 * sleep. The other topics then starve if all topics share a connector, but not if each topic has its own. Options are
 * system properties:
 *
 * zookeeper.connect, group
 * topics        comma separated
 * connectors    shared: one connector for all topics; per-topic: one connector for each topic
 * streams       threads per topic
 * slow.topic    the topic with threads that sleep
 * slow.after    seconds until these threads sleep; -1: never
 * slow.seconds  time (s) that they sleep; 0: for ever
 * seconds       time (s) until the end; 0: for ever
 * c.NAME        consumer option NAME
 *
 * When the threads begin to sleep, the program prints ONSET, the time (epoch ms) and a text. When they go on, it prints
 * RECOVERED, the time and a text. Every few seconds, it prints COUNTERS and a JSON object.
 */
public class LegacyTopics {
    private static final Logger LOG = LoggerFactory.getLogger("trades.Feed");
    private static final String GROUP = System.getProperty("group", "trades");
    private static final String SLOW_TOPIC = System.getProperty("slow.topic", "");
    private static final Map<String, LongAdder> CONSUMED = new TreeMap<>();
    private static volatile boolean paused;

    public static void main(String[] args) throws Exception {
        List<String> topics = Arrays.asList(System.getProperty("topics", "trades,quotes,fills").split(","));
        for (String topic : topics) {
            CONSUMED.put(topic, new LongAdder());
        }
        List<ConsumerConnector> connectors = new ArrayList<>();
        if (System.getProperty("connectors", "shared").equals("shared")) {
            connectors.add(consume(topics, GROUP));
        } else {
            for (String topic : topics) {
                connectors.add(consume(Collections.singletonList(topic), GROUP + "-" + topic));
            }
        }
        long slowAfter = Long.getLong("slow.after", -1);
        long slowSeconds = Long.getLong("slow.seconds", 0);
        long seconds = Long.getLong("seconds", 0);
        long begin = System.nanoTime();
        for (long elapsed = 0; seconds == 0 || elapsed < seconds; elapsed = secondsSince(begin)) {
            boolean now = slowAfter >= 0 && elapsed >= slowAfter
                && (slowSeconds == 0 || elapsed < slowAfter + slowSeconds);
            if (now != paused) {
                paused = now;
                System.out.println((now ? "ONSET " : "RECOVERED ") + System.currentTimeMillis()
                    + " handler of " + SLOW_TOPIC + (now ? " sleeps" : " goes on"));
            }
            LockSupport.parkNanos(TimeUnit.SECONDS.toNanos(1));
            if (secondsSince(begin) % 5 == 0) {
                report();
            }
        }
        paused = false;
        for (ConsumerConnector connector : connectors) {
            connector.shutdown();
        }
        report();
        System.exit(0);
    }

    private static long secondsSince(long begin) {
        return TimeUnit.NANOSECONDS.toSeconds(System.nanoTime() - begin);
    }

    private static ConsumerConnector consume(List<String> topics, String clientId) {
        Properties options = new Properties();
        options.put("zookeeper.connect", System.getProperty("zookeeper.connect"));
        options.put("zookeeper.session.timeout.ms", "10000");
        options.put("group.id", GROUP);
        options.put("client.id", clientId);
        options.put("auto.offset.reset", "smallest");
        for (String name : System.getProperties().stringPropertyNames()) {
            if (name.startsWith("c.")) {
                options.put(name.substring(2), System.getProperty(name));
            }
        }
        ConsumerConnector connector = Consumer.createJavaConsumerConnector(new ConsumerConfig(options));
        Map<String, Integer> streamsPerTopic = new HashMap<>();
        for (String topic : topics) {
            streamsPerTopic.put(topic, Integer.getInteger("streams", 1));
        }
        connector.createMessageStreams(streamsPerTopic).forEach((topic, streams) -> {
            for (KafkaStream<byte[], byte[]> stream : streams) {
                Thread handler = new Thread(() -> handle(topic, stream), "handler-" + topic);
                handler.setDaemon(true);
                handler.start();
            }
        });
        return connector;
    }

    private static void handle(String topic, KafkaStream<byte[], byte[]> stream) {
        ConsumerIterator<byte[], byte[]> messages = stream.iterator();
        while (messages.hasNext()) {
            messages.next();
            while (paused && topic.equals(SLOW_TOPIC)) {
                LockSupport.parkNanos(TimeUnit.SECONDS.toNanos(1));
            }
            CONSUMED.get(topic).increment();
        }
        LOG.info("stream of {} ended", topic);
    }

    private static void report() {
        StringBuilder json = new StringBuilder("COUNTERS {\"ts\": ").append(System.currentTimeMillis());
        CONSUMED.forEach((topic, count) -> json.append(", \"consumed:").append(topic).append("\": ").append(count.sum()));
        System.out.println(json.append("}"));
    }
}
