// Calls given.calls, each [method, argument], on one admin client; prints the list of the results,
// an error as {error, message} in its place.
import { run } from './kafka.mjs'

await run(async (kafka, given) => {
  const admin = kafka.admin({ retry: { retries: 3 } })
  await admin.connect()
  const results = []
  for (const [method, ...rest] of given.calls) {
    try {
      results.push((await admin[method](...rest)) ?? null)
    } catch (error) {
      const inner = error.errors?.[0] ?? error.groups?.[0] ?? error
      results.push({ error: inner.type ?? inner.name, message: error.message })
    }
  }
  await admin.disconnect()
  return results
})
