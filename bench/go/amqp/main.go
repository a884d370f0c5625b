// RabbitMQ's client for Go, unchanged, against a cluster: everything that a worker does with queues.
//
//	go run . URL [URL ...]
//
// Says what it has done, a line each, and ends with 1 at the first thing that is not as it should be.
// When it says "kill N" it waits for a line: then the broker at the URL of that number, from 0 on, is
// dead.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const (
	patience = 60 * time.Second
	silence  = 500 * time.Millisecond
)

// Ends the program: there is nobody who could do anything about it.
func check(err error, what string) {
	if err != nil {
		fail("%s: %v", what, err)
	}
}

func fail(format string, words ...any) {
	fmt.Printf("FAILED: "+format+"\n", words...)
	os.Exit(1)
}

func equal[T comparable](found, wanted T, what string) {
	if found != wanted {
		fail("%s: %v, not %v", what, found, wanted)
	}
}

func dial(url string) *amqp.Connection {
	connection, err := amqp.Dial(url)
	check(err, "connecting")
	return connection
}

func open(connection *amqp.Connection) *amqp.Channel {
	channel, err := connection.Channel()
	check(err, "opening a channel")
	return channel
}

func declare(channel *amqp.Channel, name string, arguments amqp.Table) amqp.Queue {
	queue, err := channel.QueueDeclare(name, true, false, false, false, arguments)
	check(err, "declaring "+name)
	return queue
}

func publish(channel *amqp.Channel, exchange, key, body string) {
	message := amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte(body)}
	check(channel.PublishWithContext(context.Background(), exchange, key, false, false, message), "publishing")
}

func consume(channel *amqp.Channel, queue string, isAutomatic bool) <-chan amqp.Delivery {
	deliveries, err := channel.Consume(queue, "", isAutomatic, false, false, false, nil)
	check(err, "consuming "+queue)
	return deliveries
}

func next(deliveries <-chan amqp.Delivery, what string) amqp.Delivery {
	select {
	case delivery, isOpen := <-deliveries:
		if !isOpen {
			fail("%s: the consumer has ended", what)
		}
		return delivery
	case <-time.After(patience):
		fail("%s: nothing came", what)
	}
	panic("not reached")
}

func nothing(deliveries <-chan amqp.Delivery, what string) {
	select {
	case delivery := <-deliveries:
		fail("%s: %q came", what, delivery.Body)
	case <-time.After(silence):
	}
}

func declares(connection *amqp.Connection) {
	channel := open(connection)
	for _, kind := range []string{"direct", "fanout", "topic", "headers"} {
		check(channel.ExchangeDeclare("go-"+kind, kind, true, false, false, false, nil), "declaring "+kind)
	}
	queue := declare(channel, "go-declared", amqp.Table{"x-max-length": int32(10)})
	equal(queue.Name, "go-declared", "the queue's name")
	check(channel.QueueBind(queue.Name, "a.*.c", "go-topic", false, nil), "binding")
	publish(channel, "go-topic", "a.b.c", "routed")
	publish(channel, "go-topic", "a.b", "not routed")
	message, isThere, err := channel.Get(queue.Name, true)
	check(err, "getting")
	equal(isThere, true, "whether it is there")
	equal(string(message.Body), "routed", "what is there")
	_, err = channel.QueueDeclare(queue.Name, true, false, false, false, amqp.Table{"x-max-length": int32(11)})
	var refused *amqp.Error
	if !errors.As(err, &refused) || refused.Code != amqp.PreconditionFailed {
		fail("declaring it otherwise: %v", err)
	}
	equal(channel.IsClosed(), true, "whether the channel is closed")
	other := open(connection)
	named, err := other.QueueDeclare("", false, true, true, false, nil)
	check(err, "declaring an exclusive queue")
	equal(strings.HasPrefix(named.Name, "amq.gen"), true, "whether its name was made up: "+named.Name)
	count, err := other.QueueDelete("go-declared", false, false, false)
	check(err, "deleting")
	equal(count, 0, "how many were deleted")
	check(other.Close(), "closing")
}

func confirms(connection *amqp.Connection) {
	channel := open(connection)
	declare(channel, "go-confirmed", nil)
	check(channel.Confirm(false), "confirm.select")
	returns := channel.NotifyReturn(make(chan amqp.Return, 1))
	const count = 500
	confirmations := make([]*amqp.DeferredConfirmation, count)
	for number := range confirmations {
		message := amqp.Publishing{DeliveryMode: amqp.Persistent, Body: fmt.Appendf(nil, "%d", number)}
		confirmation, err := channel.PublishWithDeferredConfirm("", "go-confirmed", true, false, message)
		check(err, "publishing")
		confirmations[number] = confirmation
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for number, confirmation := range confirmations {
		isAcknowledged, err := confirmation.WaitContext(ctx)
		check(err, "waiting for a confirm")
		equal(isAcknowledged, true, fmt.Sprintf("whether message %d is confirmed", number))
	}
	lost, err := channel.PublishWithDeferredConfirm("", "go-missing", true, false, amqp.Publishing{Body: []byte("x")})
	check(err, "publishing to nowhere")
	_, err = lost.WaitContext(ctx)
	check(err, "waiting for the confirm of what is returned")
	select {
	case returned := <-returns:
		equal(returned.ReplyCode, amqp.NoRoute, "why it is returned")
		equal(returned.RoutingKey, "go-missing", "what is returned")
	default:
		fail("the confirm came before the return")
	}
	count_, err := channel.QueuePurge("go-confirmed", false)
	check(err, "purging")
	equal(count_, count, "how many were purged")
	check(channel.Close(), "closing")
}

func consumes(connection *amqp.Connection) {
	channel := open(connection)
	queue := declare(channel, "go-consumed", nil).Name
	for number := range 12 {
		publish(channel, "", queue, fmt.Sprint(number))
	}
	check(channel.Qos(5, 0, false), "qos")
	deliveries := consume(channel, queue, false)
	var held []amqp.Delivery
	for number := range 5 {
		held = append(held, next(deliveries, "the first five"))
		equal(string(held[number].Body), fmt.Sprint(number), "the order")
		equal(held[number].Redelivered, false, "whether it came before")
	}
	nothing(deliveries, "more than the prefetch")
	check(held[2].Ack(true), "acknowledging three")
	for number := range 3 {
		held = append(held, next(deliveries, "three more"))
		equal(string(held[5+number].Body), fmt.Sprint(5+number), "the order")
	}
	check(held[3].Nack(false, true), "giving one back")
	again := next(deliveries, "what was given back")
	equal(string(again.Body), "3", "what came again")
	equal(again.Redelivered, true, "whether it says that it came before")
	check(channel.Close(), "closing with five unacknowledged")
	other := open(connection)
	deliveries = consume(other, queue, false)
	for number := 3; number < 12; number++ {
		delivery := next(deliveries, "all that is left")
		equal(string(delivery.Body), fmt.Sprint(number), "the order of what is left")
		equal(delivery.Redelivered, number < 8, "whether it says that it came before")
		check(delivery.Ack(false), "acknowledging")
	}
	nothing(deliveries, "more than there is")
	check(other.Close(), "closing")
}

func deadLetters(connection *amqp.Connection) {
	channel := open(connection)
	check(channel.ExchangeDeclare("go-dead", "direct", true, false, false, false, nil), "declaring")
	declare(channel, "go-buried", nil)
	check(channel.QueueBind("go-buried", "grave", "go-dead", false, nil), "binding")
	route := amqp.Table{"x-dead-letter-exchange": "go-dead", "x-dead-letter-routing-key": "grave"}
	declare(channel, "go-alive", route)
	shortLived := amqp.Table{"x-message-ttl": int32(200)}
	for name, value := range route {
		shortLived[name] = value
	}
	declare(channel, "go-short-lived", shortLived)
	buried := consume(channel, "go-buried", true)
	alive := consume(channel, "go-alive", false)
	publish(channel, "", "go-alive", "poison")
	check(next(alive, "the poison").Nack(false, false), "rejecting")
	checkDeath(next(buried, "the rejected one"), "poison", "go-alive", "rejected")
	publish(channel, "", "go-short-lived", "late")
	checkDeath(next(buried, "the expired one"), "late", "go-short-lived", "expired")
	check(channel.Close(), "closing")
}

func checkDeath(delivery amqp.Delivery, body, queue, reason string) {
	equal(string(delivery.Body), body, "the dead letter")
	equal(delivery.Exchange+" "+delivery.RoutingKey, "go-dead grave", "how it came")
	deaths, _ := delivery.Headers["x-death"].([]any)
	equal(len(deaths), 1, "how often it died")
	death, _ := deaths[0].(amqp.Table)
	equal(death["queue"], any(queue), "where it died")
	equal(death["reason"], any(reason), "why it died")
	equal(death["count"], any(int64(1)), "how often it died there")
	keys, _ := death["routing-keys"].([]any)
	equal(len(keys) == 1 && keys[0] == any(queue), true, fmt.Sprint("its routing keys: ", keys))
	equal(delivery.Headers["x-first-death-reason"], any(reason), "why it died first")
}

func transactions(connection *amqp.Connection) {
	channel, other := open(connection), open(connection)
	from, to := declare(channel, "go-tx-from", nil).Name, declare(channel, "go-tx-to", nil).Name
	publish(channel, "", from, "order")
	seen := consume(other, to, true)
	check(channel.Tx(), "tx.select")
	order, isThere, err := channel.Get(from, false)
	check(err, "getting")
	equal(isThere, true, "whether the order is there")
	publish(channel, "", to, "rolled back")
	check(order.Ack(false), "acknowledging")
	nothing(seen, "what is not committed")
	check(channel.TxRollback(), "tx.rollback")
	publish(channel, "", to, "bill")
	check(order.Ack(false), "acknowledging once more")
	check(channel.TxCommit(), "tx.commit")
	equal(string(next(seen, "what is committed").Body), "bill", "what is committed")
	nothing(seen, "what was rolled back")
	check(channel.Close(), "closing")
	left, err := other.QueueInspect(from)
	check(err, "inspecting")
	equal(left.Messages, 0, "what is left of the orders")
	check(other.Close(), "closing")
}

func replies(connection *amqp.Connection) {
	server, client := open(connection), open(connection)
	declare(server, "go-questions", nil)
	questions := consume(server, "go-questions", true)
	answers := consume(client, "amq.rabbitmq.reply-to", true)
	question := amqp.Publishing{ReplyTo: "amq.rabbitmq.reply-to", CorrelationId: "7", Body: []byte("six times seven")}
	check(client.PublishWithContext(context.Background(), "", "go-questions", false, false, question), "asking")
	asked := next(questions, "the question")
	answer := amqp.Publishing{CorrelationId: asked.CorrelationId, Body: []byte("42")}
	check(server.PublishWithContext(context.Background(), "", asked.ReplyTo, false, false, answer), "answering")
	answered := next(answers, "the answer")
	equal(string(answered.Body)+" "+answered.CorrelationId, "42 7", "the answer")
	check(server.Close(), "closing")
	check(client.Close(), "closing")
}

// A publisher and a consumer that connect with the next broker when theirs has gone.
type pair struct {
	urls []string
	// Numbers of messages that are confirmed; only the publisher writes, until it has ended.
	confirmed map[int]bool
	attempted map[int]int
}

func (p *pair) publish(count int, started chan<- struct{}, done chan<- struct{}) {
	defer close(done)
	for number, at := 0, 0; number < count; at++ {
		connection, err := amqp.Dial(p.urls[at%len(p.urls)])
		if err != nil {
			time.Sleep(100 * time.Millisecond)
			continue
		}
		channel := open(connection)
		check(channel.Confirm(false), "confirm.select")
		for number < count {
			message := amqp.Publishing{DeliveryMode: amqp.Persistent, Body: fmt.Appendf(nil, "%d", number)}
			p.attempted[number]++
			confirmation, err := channel.PublishWithDeferredConfirm("", "go-killed", true, false, message)
			if err != nil {
				break
			}
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			isAcknowledged, err := confirmation.WaitContext(ctx)
			cancel()
			if err != nil || !isAcknowledged {
				break
			}
			p.confirmed[number] = true
			number++
			if number == count/4 {
				close(started)
			}
		}
		connection.Close()
	}
}

func (p *pair) consume(found chan<- amqp.Delivery, stop <-chan struct{}) {
	for at := 0; ; at++ {
		connection, err := amqp.Dial(p.urls[at%len(p.urls)])
		if err == nil {
			if channel, err := connection.Channel(); err == nil && channel.Qos(20, 0, false) == nil {
				deliveries, err := channel.Consume("go-killed", "", false, false, false, false, nil)
				for err == nil {
					select {
					case delivery, isOpen := <-deliveries:
						if !isOpen {
							err = amqp.ErrClosed
							break
						}
						found <- delivery
						delivery.Ack(false)
					case <-stop:
						connection.Close()
						return
					}
				}
			}
			connection.Close()
		}
		select {
		case <-stop:
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func reconnects(urls []string) {
	const count = 2000
	connection := dial(urls[0])
	declare(open(connection), "go-killed", amqp.Table{"x-queue-type": "quorum"})
	check(connection.Close(), "closing")
	work := &pair{urls: urls, confirmed: map[int]bool{}, attempted: map[int]int{}}
	started, done, stop := make(chan struct{}), make(chan struct{}), make(chan struct{})
	found := make(chan amqp.Delivery, 10*count)
	go work.publish(count, started, done)
	go work.consume(found, stop)
	wait(started, "a quarter of the messages")
	fmt.Println("kill 0")
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		fail("nobody says that the broker is dead: %v", err)
	}
	wait(done, "all messages")
	seen, again := map[string]int{}, 0
	for len(seen) < count {
		select {
		case delivery := <-found:
			body := string(delivery.Body)
			var number int
			fmt.Sscan(body, &number)
			seen[body]++
			if seen[body] > work.attempted[number] {
				again++
				equal(delivery.Redelivered, true, "whether "+body+" says that it came before")
			}
		case <-time.After(patience):
			fail("%d of %d messages came", len(seen), count)
		}
	}
	close(stop)
	equal(len(work.confirmed), count, "how many are confirmed")
	fmt.Printf("reconnects: %d confirmed and delivered, %d delivered again\n", count, again)
}

func wait(on <-chan struct{}, what string) {
	select {
	case <-on:
	case <-time.After(2 * patience):
		fail("not in time: %s", what)
	}
}

func main() {
	urls := os.Args[1:]
	connection := dial(urls[0])
	for _, step := range []struct {
		name string
		do   func(*amqp.Connection)
	}{
		{"declares", declares},
		{"confirms and returns", confirms},
		{"consumes with a prefetch", consumes},
		{"dead letters with x-death", deadLetters},
		{"transactions", transactions},
		{"direct reply-to", replies},
	} {
		step.do(connection)
		fmt.Println(step.name)
	}
	check(connection.Close(), "closing")
	reconnects(urls)
}
