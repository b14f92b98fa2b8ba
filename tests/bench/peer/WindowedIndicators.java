import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.LongAdder;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.serialization.Deserializer;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.Serializer;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.processor.TimestampExtractor;
import org.apache.kafka.streams.state.WindowStore;

/**
 * The peer of the benchmark: what a team would write to get five indicators per client and no verdicts.
 *
 * <p>Each snapshot counts in windows of 60 s that begin every 30 s. A RocksDB store with a changelog holds the windows.
 * When the store releases a window, its five indicators are computed.
 *
 * <p>Arguments: brokers, topic, records, threads, folder of the state. Output, every 50 ms: epoch milliseconds, records
 * read, nanoseconds of CPU, windows released.
 */
public final class WindowedIndicators {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final byte[] TS = {'"', 't', 's', '"', ':'};
  private static final LongAdder taken = new LongAdder();
  private static final LongAdder given = new LongAdder();
  private static final CountDownLatch done = new CountDownLatch(1);
  private static volatile double sink;

  record Reading(long ts, double free, double size, double latency, double errors, double queued, double waited) {
    static final int BYTES = 7 * 8;

    static Reading of(byte[] json) {
      try {
        JsonNode snapshot = JSON.readTree(json);
        JsonNode metrics = snapshot.get("metrics");
        return new Reading(
            snapshot.get("ts").asLong(),
            metrics.path("buffer-available-bytes").asDouble(),
            metrics.path("buffer-total-bytes").asDouble(),
            metrics.path("request-latency-avg").asDouble(),
            metrics.path("record-error-total").asDouble(),
            metrics.path("record-queue-time-max").asDouble(),
            metrics.path("metadata-wait-time-ns-total").asDouble());
      } catch (IOException e) {
        throw new UncheckedIOException(e);
      }
    }

    byte[] packed() {
      return ByteBuffer.allocate(BYTES)
          .putLong(ts).putDouble(free).putDouble(size).putDouble(latency)
          .putDouble(errors).putDouble(queued).putDouble(waited).array();
    }

    static Reading unpacked(byte[] bytes) {
      ByteBuffer b = ByteBuffer.wrap(bytes);
      return new Reading(
          b.getLong(), b.getDouble(), b.getDouble(), b.getDouble(), b.getDouble(), b.getDouble(), b.getDouble());
    }
  }

  /** The values that a window keeps from its samples. */
  static final class Summary {
    static final int BYTES = 10 * 8;
    long count;
    long firstTs = Long.MAX_VALUE;
    long lastTs = Long.MIN_VALUE;
    double fullest;
    double latencies;
    double queuedLongest;
    double firstErrors;
    double lastErrors;
    double firstWaited;
    double lastWaited;

    Summary add(Reading reading) {
      count++;
      fullest = Math.max(fullest, 1 - reading.free() / Math.max(1, reading.size()));
      latencies += reading.latency();
      queuedLongest = Math.max(queuedLongest, reading.queued());
      if (reading.ts() < firstTs) {
        firstTs = reading.ts();
        firstErrors = reading.errors();
        firstWaited = reading.waited();
      }
      if (reading.ts() >= lastTs) {
        lastTs = reading.ts();
        lastErrors = reading.errors();
        lastWaited = reading.waited();
      }
      return this;
    }

    /** Fullest buffer, mean latency, errors per second, longest time in the queue, share of waiting time. */
    double[] indicators() {
      double seconds = Math.max(1, (lastTs - firstTs) / 1000.0);
      return new double[] {
        fullest,
        latencies / count,
        (lastErrors - firstErrors) / seconds,
        queuedLongest,
        (lastWaited - firstWaited) / 1e9 / seconds,
      };
    }

    byte[] packed() {
      return ByteBuffer.allocate(BYTES)
          .putLong(count).putLong(firstTs).putLong(lastTs).putDouble(fullest).putDouble(latencies)
          .putDouble(queuedLongest).putDouble(firstErrors).putDouble(lastErrors)
          .putDouble(firstWaited).putDouble(lastWaited).array();
    }

    static Summary unpacked(byte[] bytes) {
      ByteBuffer b = ByteBuffer.wrap(bytes);
      Summary s = new Summary();
      s.count = b.getLong();
      s.firstTs = b.getLong();
      s.lastTs = b.getLong();
      s.fullest = b.getDouble();
      s.latencies = b.getDouble();
      s.queuedLongest = b.getDouble();
      s.firstErrors = b.getDouble();
      s.lastErrors = b.getDouble();
      s.firstWaited = b.getDouble();
      s.lastWaited = b.getDouble();
      return s;
    }
  }

  /** Reads the snapshot's own time without parsing the snapshot a second time. */
  public static final class SaidTime implements TimestampExtractor {
    @Override
    public long extract(ConsumerRecord<Object, Object> record, long partitionTime) {
      byte[] json = (byte[]) record.value();
      for (int at = 0; at + TS.length < json.length; at++) {
        if (json[at] == '"' && java.util.Arrays.equals(json, at, at + TS.length, TS, 0, TS.length)) {
          return number(json, at + TS.length);
        }
      }
      return -1;
    }

    private static long number(byte[] json, int from) {
      int at = from;
      while (json[at] == ' ') {
        at++;
      }
      long found = 0;
      for (; json[at] >= '0' && json[at] <= '9'; at++) {
        found = 10 * found + json[at] - '0';
      }
      return found;
    }
  }

  private static <T> Serde<T> serde(Serializer<T> to, Deserializer<T> from) {
    return Serdes.serdeFrom(to, from);
  }

  public static void main(String[] args) throws InterruptedException {
    long records = Long.parseLong(args[2]);
    Properties properties = new Properties();
    properties.put(StreamsConfig.APPLICATION_ID_CONFIG, "bench-peer-" + System.nanoTime());
    properties.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, args[0]);
    properties.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, args[3]);
    properties.put(StreamsConfig.STATE_DIR_CONFIG, args[4]);
    properties.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, "1");
    properties.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");

    Serde<Reading> readings =
        serde((topic, r) -> r == null ? null : r.packed(), (topic, b) -> b == null ? null : Reading.unpacked(b));
    Serde<Summary> summaries =
        serde((topic, s) -> s == null ? null : s.packed(), (topic, b) -> b == null ? null : Summary.unpacked(b));
    StreamsBuilder builder = new StreamsBuilder();
    builder.stream(args[1], Consumed.with(Serdes.String(), Serdes.ByteArray()).withTimestampExtractor(new SaidTime()))
        .mapValues(json -> {
          Reading reading = Reading.of(json);
          taken.increment();
          return reading;
        })
        .groupByKey(Grouped.with(Serdes.String(), readings))
        .windowedBy(
            TimeWindows.ofSizeAndGrace(Duration.ofSeconds(60), Duration.ofSeconds(30))
                .advanceBy(Duration.ofSeconds(30)))
        .aggregate(
            Summary::new,
            (client, reading, summary) -> summary.add(reading),
            Materialized.<String, Summary, WindowStore<Bytes, byte[]>>as("windows")
                .withKeySerde(Serdes.String())
                .withValueSerde(summaries))
        .toStream()
        .foreach((window, summary) -> {
          given.increment();
          double[] found = summary.indicators();
          sink = found[0] + found[1] + found[2] + found[3] + found[4];
        });

    KafkaStreams streams = new KafkaStreams(builder.build(), properties);
    streams.setUncaughtExceptionHandler(e -> {
      e.printStackTrace();
      Runtime.getRuntime().halt(1);
      return null;
    });
    Runtime.getRuntime().addShutdownHook(new Thread(() -> {
      done.countDown();
      streams.close(Duration.ofSeconds(10));
    }));
    streams.start();
    var machine = (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
    boolean waiting = true;
    while (waiting) {
      waiting = taken.sum() < records && !done.await(50, java.util.concurrent.TimeUnit.MILLISECONDS);
      System.out.println(
          System.currentTimeMillis() + " " + taken.sum() + " " + machine.getProcessCpuTime() + " " + given.sum());
    }
    System.exit(0);
  }
}
