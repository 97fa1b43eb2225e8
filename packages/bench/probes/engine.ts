/** An engine that answers health checks and sends recorded families of vLLM's metrics, about 100 KB, as a process. */
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

interface Family {
  readonly name: string
  readonly type: string
  readonly labels: readonly string[]
  readonly values: Readonly<Record<string, readonly string[]>>
  readonly buckets?: readonly string[]
}

/** Size of the text that the gateway's limits and decisions assume. */
const BYTES = 100_000

const { families } = JSON.parse(
  readFileSync(new URL('../../../test/vectors/metrics.json', import.meta.url), 'utf8'),
) as {
  readonly families: readonly Family[]
}
const metrics = metricsText()

const server = createServer((request, response) => {
  if (request.url === '/metrics') response.setHeader('content-type', 'text/plain; version=0.0.4').end(metrics)
  else if (request.url === '/version')
    response.setHeader('content-type', 'application/json').end('{"version":"0.32.0"}')
  else response.writeHead(request.url === '/health' ? 200 : 404).end()
})
server.listen(0, '127.0.0.1', () => process.send!((server.address() as AddressInfo).port))
process.on('disconnect', () => process.exit())

/** All families, for as many data-parallel ranks as fill the size. */
function metricsText(): string {
  const lines = families.map(({ name, type }) => [`# HELP ${name} As recorded.`, `# TYPE ${name} ${type}`])
  for (let rank = 0; lines.flat().join('\n').length < BYTES; rank++)
    families.forEach((family, at) => lines[at]!.push(...samplesOf(family, rank)))
  return `${lines.flat().join('\n')}\n`
}

function samplesOf({ name, type, labels, values, buckets = [] }: Family, rank: number): string[] {
  const own = labels.map((label) => {
    if (label === 'engine') return `engine="${rank}"`
    return label === 'model_name'
      ? 'model_name="meta-llama/Llama-3.1-70B-Instruct"'
      : `${label}="${values[label]?.[0] ?? 1}"`
  })
  const line = (suffix: string, more: readonly string[] = []) => `${name}${suffix}{${[...own, ...more].join(',')}} 1.0`
  if (type === 'histogram')
    return [...buckets.map((le) => line('_bucket', [`le="${le}"`])), line('_count'), line('_sum'), line('_created')]
  return type === 'counter' ? [line('_total'), line('_created')] : [line('')]
}
