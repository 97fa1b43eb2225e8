/** Rows that need no vLLM: programs in the cache, and a gateway on Node with a configuration of their own. */
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { cacheFolder } from './environment.ts'
import { freePorts, send, type Answer } from './http.ts'
import type { Processes, RunningProcess } from './processes.ts'
import type { Lab } from './row.ts'
import { until } from './until.ts'

const root = fileURLToPath(new URL('../../../', import.meta.url))

/** Names the missing files of the cache, and the script that creates them. */
export function missingIn(folder: string, files: readonly string[], script: string): string | null {
  const absent = files.filter((file) => !existsSync(join(cacheFolder, folder, file)))
  return absent.length === 0 ? null : `no ${absent.join(', ')}; run bash packages/bench/conformance/${script}`
}

export const inCache = (...path: readonly string[]): string => join(cacheFolder, ...path)

/** Waits until `path` answers 200. */
export async function answers(url: string, path: string, running: RunningProcess): Promise<void> {
  await until(async () => {
    if (running.exitCode() !== null) throw new Error(`${running.what} ended while starting:\n${running.tail(20)}`)
    const answer = await send({ url, method: 'GET', path, limitMs: 2000 }).catch(() => null)
    return answer?.status === 200
  }, running.what)
}

export interface StandaloneGateway {
  readonly url: string
  stop(): Promise<void>
  post(path: string, body: object): Promise<Answer>
  metric(name: string, labels: string): Promise<number | null>
}

/** Starts `firstlight serve` on a free port of loopback, without keys. */
export async function serveAlone(
  { processes }: { readonly processes: Processes },
  name: string,
  document: object,
  env: Readonly<Record<string, string>> = {},
): Promise<StandaloneGateway> {
  const [port] = await freePorts(1)
  mkdirSync(cacheFolder, { recursive: true })
  const file = join(cacheFolder, `gateway-${name}.json`)
  writeFileSync(file, JSON.stringify({ listen: `127.0.0.1:${port}`, ...document }))
  const command = [process.execPath, 'bin/firstlight.mjs', 'serve', '--config', file]
  const running = processes.start({ what: `gateway ${name}`, command, folder: root, env })
  const url = `http://127.0.0.1:${port}`
  await answers(url, '/health', running)
  return {
    url,
    stop: () => running.stop(),
    post: (path, body) => send({ url, method: 'POST', path, body }),
    async metric(family, labels) {
      const { body } = await send({ url, method: 'GET', path: '/metrics' })
      const line = body
        .toString()
        .split('\n')
        .find((one) => one.startsWith(`${family}{`) && one.includes(labels))
      return line === undefined ? null : Number(line.slice(line.lastIndexOf(' ') + 1))
    },
  }
}

/** Runs with a value that is stopped afterwards, whatever happens. */
export async function using<Value extends { stop(): Promise<void> }, Result>(
  value: Value,
  run: (value: Value) => Promise<Result>,
): Promise<Result> {
  try {
    return await run(value)
  } finally {
    await value.stop()
  }
}

export type Start = Pick<Lab, 'processes'>
