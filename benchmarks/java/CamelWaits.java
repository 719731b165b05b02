// A route of Apache Camel: file component, JSON, and a process that waits, on so many threads.
// Arguments: directory. Commands on standard input: "take COUNT THREADS MILLISECONDS". Prints the seconds of each.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import org.apache.camel.builder.RouteBuilder;
import org.apache.camel.component.jackson.JacksonDataFormat;
import org.apache.camel.impl.DefaultCamelContext;

public class CamelWaits {
    public static void main(String[] arguments) throws Exception {
        DefaultCamelContext context = new DefaultCamelContext();
        context.start();
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        int number = 0;
        for (String line; (line = commands.readLine()) != null; ) {
            String[] words = line.split(" ");
            String route = "route" + number++;
            CountDownLatch left = new CountDownLatch(Integer.parseInt(words[1]));
            int threads = Integer.parseInt(words[2]);
            long milliseconds = Long.parseLong(words[3]);
            context.addRoutes(new RouteBuilder() {
                @Override
                public void configure() {
                    from("file:" + arguments[0] + "/in?initialDelay=0&delay=1&greedy=true&readLock=none"
                            + "&maxMessagesPerPoll=1000&eagerMaxMessagesPerPoll=true&move=" + arguments[0] + "/archive")
                        .routeId(route)
                        .threads(threads, threads)
                        .unmarshal(new JacksonDataFormat(Map.class))
                        .process(exchange -> {
                            Thread.sleep(milliseconds);
                            left.countDown();
                        });
                }
            });
            long begun = System.nanoTime();
            left.await();
            double seconds = (System.nanoTime() - begun) / 1e9;
            context.getRouteController().stopRoute(route);
            context.removeRoute(route);
            System.out.println(seconds);
        }
        context.stop();
        System.exit(0);
    }
}
