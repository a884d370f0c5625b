// Lets a second member join the first in a group and leave again; prints who had and read what.
import { eventually, run } from './kafka.mjs'

await run(async (kafka, given) => {
  const { topic, group } = given
  const values = []
  const producer = kafka.producer()
  await producer.connect()

  async function member() {
    const consumer = kafka.consumer({
      groupId: group,
      heartbeatInterval: 300,
      maxWaitTimeInMs: 100,
      rebalanceTimeout: 30000,
    })
    const self = { consumer, partitions: [] }
    consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
      self.partitions = payload.memberAssignment[topic] ?? []
    })
    await consumer.connect()
    await consumer.subscribe({ topic, fromBeginning: true })
    await consumer.run({
      eachMessage: async ({ message }) => {
        values.push(Number(message.value))
      },
    })
    return self
  }

  async function send(first, end) {
    const messages = []
    for (let i = first; i < end; i += 1) messages.push({ value: String(i), partition: i % 4 })
    await producer.send({ topic, messages })
    await eventually(() => values.length >= end)
  }

  const first = await member()
  await eventually(() => first.partitions.length === 4)
  const result = { alone: first.partitions }
  await send(0, 40)
  const second = await member()
  await eventually(() => first.partitions.length === 2 && second.partitions.length === 2)
  result.together = [first.partitions, second.partitions]
  await send(40, 80)
  await second.consumer.disconnect()
  await eventually(() => first.partitions.length === 4)
  result.again = first.partitions
  await send(80, 120)
  await first.consumer.disconnect()
  await producer.disconnect()
  return { ...result, values }
})
