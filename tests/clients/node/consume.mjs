// Reads given.count messages of given.topic from the beginning and prints them.
import { eventually, plain, run } from './kafka.mjs'

await run(async (kafka, given) => {
  const consumer = kafka.consumer({ groupId: given.group, ...given.options })
  const messages = []
  await consumer.connect()
  await consumer.subscribe({ topic: given.topic, fromBeginning: true })
  await consumer.run({
    eachMessage: async ({ topic, partition, message }) => {
      messages.push(plain(topic, partition, message))
    },
  })
  await eventually(() => messages.length >= given.count)
  await consumer.disconnect()
  return messages
})
