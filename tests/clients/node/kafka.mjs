// What the scripts here share: a client, every codec, arguments in and JSON out.
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'

const require = createRequire(import.meta.url)
const { CompressionCodecs, CompressionTypes, Kafka, logLevel } = require('kafkajs')
const lz4 = require('lz4js')
const snappyCodec = require('kafkajs-snappy')
const zstd = require('@bokuweb/zstd-wasm')

CompressionCodecs[CompressionTypes.Snappy] = snappyCodec
CompressionCodecs[CompressionTypes.LZ4] = () => ({
  compress: async encoder => Buffer.from(lz4.compress(encoder.buffer)),
  decompress: async buffer => Buffer.from(lz4.decompress(buffer)),
})
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  compress: async encoder => Buffer.from(zstd.compress(encoder.buffer)),
  decompress: async buffer => Buffer.from(zstd.decompress(buffer)),
})

export const codecs = {
  none: CompressionTypes.None,
  gzip: CompressionTypes.GZIP,
  snappy: CompressionTypes.Snappy,
  lz4: CompressionTypes.LZ4,
  zstd: CompressionTypes.ZSTD,
}

const text = value => (value === null || value === undefined ? null : value.toString())

// A message as JSON: bytes as text, headers as a list of pairs (a name may come more than once).
export const plain = (topic, partition, message) => ({
  topic,
  partition,
  offset: Number(message.offset),
  timestamp_ms: Number(message.timestamp),
  key: text(message.key),
  value: text(message.value),
  headers: Object.entries(message.headers ?? {}).flatMap(([name, values]) =>
    [values].flat().map(value => [name, text(value)]),
  ),
})

// Runs main(kafka, given) with the JSON object of the command line and prints what it returns.
export async function run(main) {
  const given = JSON.parse(process.argv[2])
  const kafka = new Kafka({
    clientId: 'kafkajs',
    brokers: given.bootstrap_servers.split(','),
    // A token of OAUTHBEARER comes from a function, which JSON has not.
    sasl: given.sasl?.token
      ? { mechanism: 'oauthbearer', oauthBearerProvider: async () => ({ value: given.sasl.token }) }
      : given.sasl,
    // Files, by their names in Node's TLS: ca, cert, key.
    ssl: given.ssl && Object.fromEntries(
      Object.entries(given.ssl).map(([name, path]) => [name, readFileSync(path)]),
    ),
    logLevel: logLevel.NOTHING,
    // Its default is a second, which is nothing where much else runs.
    connectionTimeout: 20_000,
    retry: { initialRetryTime: 50, retries: given.sasl ? 1 : 10 },
    // A file of settings, as an application requires it: it says where and how.
    ...(given.settings && require(given.settings)),
  })
  await zstd.init()
  try {
    // What is long is on its way when this returns.
    process.stdout.write(JSON.stringify(await main(kafka, given)), () => process.exit(0))
  } catch (error) {
    process.stdout.write(JSON.stringify({ error: error.type ?? error.name, message: error.message }))
    process.exit(1)
  }
}

// Resolves once condition() holds; the test's own time limit is the limit.
export async function eventually(condition) {
  while (!condition()) await new Promise(resolve => setTimeout(resolve, 20))
}
