// One end of a load with danube-go: the same as danube_load.py, which says how it is used.
//
// It is built in the module of a danube-go checkout, so that it needs no module of its own:
// `go build -o load /path/to/danube_load.go` there.
package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	danube "github.com/danube-messaging/danube-go"
	"golang.org/x/sys/unix"
)

const kept = 100_000

type options struct {
	Place    string  `json:"place"`
	Topic    string  `json:"topic"`
	Size     int     `json:"size"`
	InFlight int     `json:"in_flight"`
	Seconds  float64 `json:"seconds"`
	Rate     float64 `json:"rate"`
	WarmUp   int     `json:"warm_up"`
	Patience float64 `json:"patience"`
}

// clock is CLOCK_MONOTONIC, as Python's time.monotonic.
func clock() float64 {
	var now unix.Timespec
	check(unix.ClockGettime(unix.CLOCK_MONOTONIC, &now))
	return float64(now.Sec) + float64(now.Nsec)/1e9
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func newProducer(client *danube.DanubeClient, topic string, name string) *danube.Producer {
	producer, err := client.NewProducer().WithName(name).WithTopic(topic).
		WithDispatchStrategy(danube.NewReliableDispatchStrategy()).Build()
	check(err)
	check(producer.Create(context.Background()))
	return producer
}

func produce(client *danube.DanubeClient, given options) map[string]any {
	ctx := context.Background()
	// A producer of danube-go sends one message at a time, so each caller has its own.
	producers := make([]*danube.Producer, given.InFlight)
	for number := range producers {
		producers[number] = newProducer(client, given.Topic, fmt.Sprintf("bench-%d", number))
	}
	payload := make([]byte, given.Size)
	_, err := rand.Read(payload)
	check(err)
	send := func(producer *danube.Producer) {
		_, err := producer.Send(ctx, payload, nil)
		check(err)
	}
	for number := range given.WarmUp {
		send(producers[number%len(producers)])
	}
	time.Sleep(500 * time.Millisecond) // the consumer has them all

	var sent atomic.Int64
	var lock sync.Mutex
	samples := []float64{}
	begun := clock()
	end := begun + given.Seconds
	answered := func(start float64) {
		took := (clock() - start) * 1000
		if sent.Add(1) <= kept {
			lock.Lock()
			samples = append(samples, took)
			lock.Unlock()
		}
	}
	if given.Rate > 0 {
		for due := begun; due < end && clock() < end; due = begun + float64(sent.Load())/given.Rate {
			if early := due - clock(); early > 0 {
				time.Sleep(time.Duration(early * float64(time.Second)))
			}
			send(producers[0])
			answered(due)
		}
	} else {
		var callers sync.WaitGroup
		for _, producer := range producers {
			callers.Add(1)
			go func() {
				defer callers.Done()
				for start := clock(); start < end; start = clock() {
					send(producer)
					answered(start)
				}
			}()
		}
		callers.Wait()
	}
	return map[string]any{"sent": sent.Load(), "begun": begun, "ended": clock(), "ms": samples}
}

func consume(client *danube.DanubeClient, given options) map[string]any {
	ctx := context.Background()
	newProducer(client, given.Topic, "creator") // a consumer does not create the topic
	consumer, err := client.NewConsumer().WithConsumerName("bench").WithTopic(given.Topic).
		WithSubscription("bench").WithSubscriptionType(danube.Exclusive).Build()
	check(err)
	check(consumer.Subscribe(ctx))
	messages, err := consumer.Receive(ctx)
	check(err)
	fmt.Println("ready")

	var acknowledged, last atomic.Int64 // last is in nanoseconds
	for range given.InFlight {
		go func() {
			for message := range messages {
				_, err := consumer.Ack(ctx, message)
				check(err)
				last.Store(int64(clock() * 1e9))
				acknowledged.Add(1)
			}
		}()
	}
	line, err := bufio.NewReader(os.Stdin).ReadString('\n')
	check(err)
	total, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
	check(err)
	told := clock()
	ended := func() float64 { return float64(last.Load()) / 1e9 }
	for acknowledged.Load() < total && clock()-max(ended(), told) < given.Patience {
		time.Sleep(10 * time.Millisecond)
	}
	return map[string]any{"acknowledged": acknowledged.Load(), "ended": ended()}
}

func main() {
	var given options
	check(json.Unmarshal([]byte(os.Args[2]), &given))
	client, err := danube.NewClient().ServiceURL(given.Place).Build()
	check(err)
	roles := map[string]func(*danube.DanubeClient, options) map[string]any{
		"produce": produce, "consume": consume,
	}
	check(json.NewEncoder(os.Stdout).Encode(roles[os.Args[1]](client, given)))
}
