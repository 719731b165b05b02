// InOut of Apache Camel's jms component. Arguments: URL. Commands on standard input: "ask ENDPOINT CALLERS EACH".
// Prints the exchanges a second of all callers, then the milliseconds of each exchange.

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CyclicBarrier;
import org.apache.camel.ProducerTemplate;
import org.apache.camel.component.jms.JmsComponent;
import org.apache.camel.impl.DefaultCamelContext;
import org.apache.qpid.jms.JmsConnectionFactory;
import org.springframework.jms.connection.CachingConnectionFactory;

public class CamelRequests {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        DefaultCamelContext context = new DefaultCamelContext();
        CachingConnectionFactory factory = new CachingConnectionFactory(new JmsConnectionFactory(arguments[0]));
        factory.setSessionCacheSize(100);
        factory.setCacheConsumers(false); // the consumer of a shared reply queue gets another selector each time
        JmsComponent jms = JmsComponent.jmsComponent(factory);
        jms.setDeliveryPersistent(false);
        jms.setRequestTimeout(30_000);
        context.addComponent("jms", jms);
        context.start();
        ProducerTemplate template = context.createProducerTemplate();
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = commands.readLine()) != null; ) {
            String[] words = line.split(" ");
            System.out.println(ask(template, words[1], Integer.parseInt(words[2]), Integer.parseInt(words[3])));
        }
        context.stop();
        System.exit(0);
    }

    private static String ask(ProducerTemplate template, String endpoint, int callers, int each) throws Exception {
        double[] milliseconds = new double[callers * each];
        CyclicBarrier together = new CyclicBarrier(callers + 1);
        List<Thread> threads = new ArrayList<>();
        for (int caller = 0; caller < callers; caller++) {
            int first = caller * each;
            threads.add(new Thread(() -> {
                try {
                    together.await();
                    for (int number = first; number < first + each; number++) {
                        long begun = System.nanoTime();
                        exchange(template, endpoint, number);
                        milliseconds[number] = (System.nanoTime() - begun) / 1e6;
                    }
                } catch (Exception error) {
                    error.printStackTrace();
                    System.exit(1);
                }
            }));
        }
        threads.forEach(Thread::start);
        together.await();
        long begun = System.nanoTime();
        for (Thread thread : threads) {
            thread.join();
        }
        StringBuilder text = new StringBuilder();
        text.append(milliseconds.length / ((System.nanoTime() - begun) / 1e9));
        for (double one : milliseconds) {
            text.append(' ').append(one);
        }
        return text.toString();
    }

    private static void exchange(ProducerTemplate template, String endpoint, int number) throws Exception {
        String notes = "n".repeat(900);
        Map<String, String> customer = Map.of(
            "BusinessObject", "Customer", "Verb", "Retrieve", "CustomerId", "" + number, "Notes", notes);
        String reply = template.requestBody(endpoint, JSON.writeValueAsString(customer), String.class);
        if (!JSON.readTree(reply).path("CustomerId").asText().equals("" + number)) {
            throw new IllegalStateException("a wrong reply");
        }
    }
}
