import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.apache.kafka.common.utils.internals.Exit;

/**
 * Runs Kafka's command line tools in one JVM, because starting a JVM takes longer than a tool.
 *
 * Prints the port on which it listens. A request is a line with a tool's main class and arguments, separated by
 * the character U+0001. The answer is the exit code on a line, followed by everything that the tool printed.
 */
public class KafkaTools {
    private static final class Exited extends RuntimeException {}

    public static void main(String[] none) throws Exception {
        PrintStream console = System.out;
        try (ServerSocket server = new ServerSocket(0, 5, InetAddress.getLoopbackAddress())) {
            console.println(server.getLocalPort());
            while (true) {
                try (Socket peer = server.accept()) {
                    String line = new BufferedReader(new InputStreamReader(peer.getInputStream(), StandardCharsets.UTF_8)).readLine();
                    ByteArrayOutputStream written = new ByteArrayOutputStream();
                    PrintStream output = new PrintStream(written, true, StandardCharsets.UTF_8);
                    System.setOut(output);
                    System.setErr(output);
                    int code = run(line.split("\u0001", -1), output);
                    output.flush();
                    peer.getOutputStream().write((code + "\n").getBytes(StandardCharsets.UTF_8));
                    peer.getOutputStream().write(written.toByteArray());
                }
            }
        }
    }

    private static int run(String[] words, PrintStream output) throws Exception {
        int[] code = {-1};
        Exit.Procedure first = (status, message) -> {
            code[0] = code[0] < 0 ? status : code[0];
            throw new Exited();
        };
        Exit.setExitProcedure(first);
        Exit.setHaltProcedure(first);
        try {
            Object arguments = Arrays.copyOfRange(words, 1, words.length);
            scala.Console$.MODULE$.withOut(output, new Main(words[0], arguments));
        } catch (Exited exited) {
            // the tool called exit, and its exit code is in `code`
        } catch (RuntimeException error) {
            error.printStackTrace(output);
            return 1;
        }
        return Math.max(code[0], 0);
    }

    private record Main(String name, Object arguments) implements scala.Function0<Object> {
        @Override
        public Object apply() {
            try {
                return Class.forName(name).getMethod("main", String[].class).invoke(null, arguments);
            } catch (InvocationTargetException error) {
                if (error.getCause() instanceof Exited exited) {
                    throw exited;
                }
                throw new IllegalStateException(error.getCause());
            } catch (ReflectiveOperationException error) {
                throw new IllegalStateException(error);
            }
        }
    }
}
