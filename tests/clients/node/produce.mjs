// Produces given.messages to given.topic and prints the answers.
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
  const size = given.batch ?? given.messages.length
  for (let first = 0; first < given.messages.length; first += size) {
    answers.push(
      ...(await producer.send({
        topic: given.topic,
        acks: given.acks ?? -1,
        compression: codecs[given.codec ?? 'none'],
        messages: given.messages.slice(first, first + size),
      })),
    )
  }
  await producer.disconnect()
  return answers
})
