// Produces given.messages to given.topic, a value as many times as it says, and prints the answers.
import { codecs, run } from './kafka.mjs'

await run(async (kafka, given) => {
  const producer = kafka.producer({
    idempotent: given.idempotent ?? false,
    maxInFlightRequests: given.idempotent ? 1 : undefined,
    allowAutoTopicCreation: false,
    retry: { retries: given.retries ?? 5 },
  })
  await producer.connect()
  const answers = []
  const messages = given.messages.map(({ times, value, ...rest }) => ({
    ...rest,
    value: times ? value.repeat(times) : value,
  }))
  const size = given.batch ?? messages.length
  for (let first = 0; first < messages.length; first += size) {
    answers.push(
      ...(await producer.send({
        topic: given.topic,
        acks: given.acks ?? -1,
        compression: codecs[given.codec ?? 'none'],
        messages: messages.slice(first, first + size),
      })),
    )
  }
  await producer.disconnect()
  return answers
})
