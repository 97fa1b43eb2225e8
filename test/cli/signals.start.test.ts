import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import net from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { servingEnv, servingFlags } from '../../bin/serving-flags.mjs'
import { ownPorts } from '../own-ports.ts'

const STARTS = 24
/** Starts at the same time. */
const TOGETHER = 3
const entry = fileURLToPath(new URL('../../src/node.ts', import.meta.url))

const answers = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = net.connect(port, '127.0.0.1')
    const done = (isOpen: boolean): void => {
      socket.destroy()
      resolve(isOpen)
    }
    socket.once('connect', () => done(true)).once('error', () => done(false))
  })

describe('a gateway that gets SIGTERM as soon as its port is open', () => {
  let folder: string
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'firstlight-signals-'))
  })
  afterAll(() => rmSync(folder, { recursive: true, force: true }))

  /** Starts a gateway and stops it in its first moment. Resolves with its exit code and signal. */
  const startAndStop = async (workers: number): Promise<unknown> => {
    const port = ownPorts(1)
    const file = join(folder, `${port}.json`)
    const pools = [{ model: 'sim', engines: [{ id: 'a', url: `http://127.0.0.1:${ownPorts(1)}` }] }]
    writeFileSync(
      file,
      JSON.stringify({ listen: `127.0.0.1:${port}`, open: true, workers, clusters: [{ id: 'one', pools }] }),
    )
    const child = spawn(process.execPath, [...servingFlags, entry, 'serve', '--config', file], {
      stdio: 'ignore',
      env: servingEnv(process.env),
    })
    const exited = once(child, 'exit')
    while (child.exitCode === null && child.signalCode === null && !(await answers(port))) await sleep(2)
    child.kill('SIGTERM')
    return exited
  }

  it.each([
    ['without threads', 1],
    ['with two threads', 2],
  ])(
    'ends in order in each of 24 starts, %s',
    async (_, workers) => {
      const ends: unknown[] = []
      const next = async (): Promise<void> => {
        while (ends.length + running < STARTS) {
          running += 1
          const end = await startAndStop(workers)
          running -= 1
          ends.push(end)
        }
      }
      let running = 0
      await Promise.all(Array.from({ length: TOGETHER }, next))
      expect(ends).toEqual(Array.from({ length: STARTS }, () => [0, null]))
    },
    600_000,
  )
})
