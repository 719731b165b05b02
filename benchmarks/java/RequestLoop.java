// Requests and replies in Java. Arguments: URL. Commands on standard input:
// "echo QUEUE SESSIONS" sends each request of a queue back from now on, by listeners. Prints 0.
// "ask QUEUE REPLIES CALLERS EACH" asks in a transacted session of each caller: send, commit, receive, commit.
// REPLIES is "temporary", or a queue that all callers share: then each request has a consumer with a selector.
// Prints the exchanges a second of all callers, then the milliseconds of each exchange.

import com.fasterxml.jackson.databind.ObjectMapper;
import jakarta.jms.Connection;
import jakarta.jms.DeliveryMode;
import jakarta.jms.Destination;
import jakarta.jms.JMSException;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Session;
import jakarta.jms.TextMessage;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CyclicBarrier;
import org.apache.qpid.jms.JmsConnectionFactory;

public class RequestLoop {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final long PATIENCE = 30_000;

    public static void main(String[] arguments) throws Exception {
        Connection connection = new JmsConnectionFactory(arguments[0]).createConnection();
        connection.start();
        Map<String, List<Caller>> callers = new HashMap<>();
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = commands.readLine()) != null; ) {
            String[] words = line.split(" ");
            if (words[0].equals("echo")) {
                for (int number = 0; number < Integer.parseInt(words[2]); number++) {
                    echo(connection.createSession(false, Session.AUTO_ACKNOWLEDGE), words[1]);
                }
                System.out.println(0);
                continue;
            }
            List<Caller> found = callers.computeIfAbsent(words[2], key -> new ArrayList<>());
            while (found.size() < Integer.parseInt(words[3])) {
                found.add(new Caller(connection, words[1], words[2]));
            }
            System.out.println(ask(found.subList(0, Integer.parseInt(words[3])), Integer.parseInt(words[4])));
        }
        connection.close();
    }

    private static void echo(Session session, String queue) throws JMSException {
        MessageProducer producer = session.createProducer(null);
        session.createConsumer(session.createQueue(queue)).setMessageListener(request -> {
            try {
                TextMessage reply = session.createTextMessage(request.getBody(String.class));
                String correlation = request.getJMSCorrelationID();
                reply.setJMSCorrelationID(correlation != null ? correlation : request.getJMSMessageID());
                reply.setStringProperty("ResponseResult", "VALCHANGE");
                producer.send(request.getJMSReplyTo(), reply, DeliveryMode.NON_PERSISTENT, 4, PATIENCE);
            } catch (JMSException error) {
                throw new IllegalStateException(error);
            }
        });
    }

    private static String ask(List<Caller> callers, int each) throws Exception {
        double[] milliseconds = new double[callers.size() * each];
        CyclicBarrier together = new CyclicBarrier(callers.size() + 1);
        List<Thread> threads = new ArrayList<>();
        for (int caller = 0; caller < callers.size(); caller++) {
            int first = caller * each;
            Caller one = callers.get(caller);
            threads.add(new Thread(() -> {
                try {
                    together.await();
                    for (int number = first; number < first + each; number++) {
                        long begun = System.nanoTime();
                        one.exchange(number);
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

    private static class Caller {
        private final Session session;
        private final MessageProducer producer;
        private final Destination replies;
        private final MessageConsumer consumer;

        Caller(Connection connection, String queue, String shared) throws JMSException {
            session = connection.createSession(true, Session.SESSION_TRANSACTED);
            producer = session.createProducer(session.createQueue(queue));
            boolean temporary = shared.equals("temporary");
            replies = temporary ? session.createTemporaryQueue() : session.createQueue(shared);
            consumer = temporary ? session.createConsumer(replies) : null;
        }

        void exchange(int number) throws Exception {
            String notes = "n".repeat(900);
            Map<String, String> customer = Map.of(
                "BusinessObject", "Customer", "Verb", "Retrieve", "CustomerId", "" + number, "Notes", notes);
            TextMessage request = session.createTextMessage(JSON.writeValueAsString(customer));
            request.setJMSReplyTo(replies);
            producer.send(request, DeliveryMode.NON_PERSISTENT, 4, PATIENCE);
            String selector = "JMSCorrelationID = '" + request.getJMSMessageID() + "'";
            MessageConsumer own = consumer == null ? session.createConsumer(replies, selector) : consumer;
            session.commit();
            TextMessage reply = (TextMessage) own.receive(PATIENCE);
            session.commit();
            if (own != consumer) {
                own.close();
            }
            if (!reply.getJMSCorrelationID().equals(request.getJMSMessageID())
                || !JSON.readTree(reply.getText()).path("CustomerId").asText().equals("" + number)) {
                throw new IllegalStateException("a wrong reply");
            }
        }
    }
}
