// Seeks back and forth in partition 0 of given.topic, then pauses and resumes it.
import { eventually, run } from './kafka.mjs'

await run(async (kafka, given) => {
  const { topic, group } = given
  const consumer = kafka.consumer({ groupId: group, maxWaitTimeInMs: 100 })
  const producer = kafka.producer()
  let values = []
  await consumer.connect()
  await producer.connect()
  await consumer.subscribe({ topic, fromBeginning: true })
  await consumer.run({
    eachMessage: async ({ message }) => {
      values.push(Number(message.value))
    },
  })
  await eventually(() => values.length >= given.count)
  const result = { first: values }
  values = []
  consumer.seek({ topic, partition: 0, offset: String(given.count - 3) })
  await eventually(() => values.length >= 3)
  result.sought = values
  values = []
  consumer.pause([{ topic }])
  await producer.send({ topic, messages: [{ value: '1000' }] })
  await new Promise(resolve => setTimeout(resolve, 400))
  result.paused = values.slice()
  consumer.resume([{ topic }])
  await eventually(() => values.length >= 1)
  result.resumed = values
  await consumer.commitOffsets([{ topic, partition: 0, offset: '2', metadata: 'two' }])
  await consumer.disconnect()
  await producer.disconnect()
  return result
})
