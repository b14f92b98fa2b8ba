package clienthealth;

import java.lang.management.ManagementFactory;
import java.lang.reflect.Proxy;
import java.net.InetAddress;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import javax.management.ObjectName;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.telemetry.ClientTelemetryPayload;
import org.apache.kafka.server.telemetry.ClientTelemetryReceiver;

/**
 * Runs the plugin in a JVM without a broker. Each argument is a case: settings `name=value`, one per line, and the
 * action to take. Prints a line `case N` before each case. The plugin's log goes to standard output, too.
 */
public class PluginCases {
    private static final ObjectName COUNTERS = name("clienthealth:type=ClientTelemetryToTopic");

    public static void main(String[] cases) throws Exception {
        for (int number = 0; number < cases.length; number++) {
            System.out.println("case " + number);
            Map<String, String> settings = new HashMap<>();
            for (String line : cases[number].split("\n")) {
                settings.put(line.substring(0, line.indexOf('=')), line.substring(line.indexOf('=') + 1));
            }
            int pushes = Integer.parseInt(settings.getOrDefault("pushes", "0"));
            ClientTelemetryToTopic plugin = new ClientTelemetryToTopic();
            plugin.configure(settings);
            ClientTelemetryReceiver receiver = plugin.clientReceiver();
            System.out.println("takes pushes: " + (receiver != null));
            for (int push = 0; push < pushes; push++) {
                receiver.exportMetrics(context(), payload());
            }
            int lost = Integer.parseInt(settings.getOrDefault("lost", "0"));
            while (pushes > 0 && count("Failed") + count("Dropped") < lost) {
                Thread.sleep(10);
            }
            if (pushes > 0) {
                System.out.println("failed " + count("Failed") + ", dropped " + count("Dropped"));
            }
            plugin.close();
        }
        System.out.println("clock");
        clock();
    }

    /** Prints what the plugin logs if pushes are lost for 150 s of a simulated clock. */
    private static void clock() {
        long[] now = {0};
        List<String> lines = new ArrayList<>();
        Counters counters = new Counters("topic t at b:1", () -> now[0], lines::add);
        for (int second = 0; second <= 150; second++) {
            now[0] = second * 1000L;
            if (second < 100) {
                counters.failed(new TimeoutException("too late"));
            }
            counters.dropped();
        }
        lines.forEach(System.out::println);
    }

    private static AuthorizableRequestContext context() throws Exception {
        Map<String, Object> answers = Map.of(
                "clientId", "c", "principal", KafkaPrincipal.ANONYMOUS, "listenerName", "PLAINTEXT",
                "clientAddress", InetAddress.getLoopbackAddress());
        return answering(AuthorizableRequestContext.class, answers);
    }

    private static ClientTelemetryPayload payload() {
        Map<String, Object> answers = Map.of(
                "clientInstanceId", Uuid.randomUuid(), "isTerminating", false, "data", ByteBuffer.wrap(new byte[100]));
        return answering(ClientTelemetryPayload.class, answers);
    }

    private static <T> T answering(Class<T> type, Map<String, Object> answers) {
        return type.cast(Proxy.newProxyInstance(
                type.getClassLoader(), new Class<?>[] {type}, (self, method, none) -> answers.get(method.getName())));
    }

    private static long count(String attribute) throws Exception {
        return (Long) ManagementFactory.getPlatformMBeanServer().getAttribute(COUNTERS, attribute);
    }

    private static ObjectName name(String text) {
        try {
            return new ObjectName(text);
        } catch (javax.management.MalformedObjectNameException impossible) {
            throw new AssertionError(impossible);
        }
    }
}
