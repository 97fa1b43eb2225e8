/**
 * A programmable engine at byte level. The script arrives with the request (`x-script`), so one suite drives it from
 * any runtime. Its record is read over HTTP, with responses that wait for events.
 */
import http from 'node:http'
import net from 'node:net'
import type { AddressInfo } from 'node:net'
import type { RunReport, Step } from './engine-script.ts'

export interface ScriptedEngine {
  /** Runs the scripts. */
  readonly engineUrl: string
  /** `GET /runs/ID`, `GET /runs/ID/closed`, `GET /runs/ID/arrived`, `GET /runs/ID/go` (opens a gate). */
  readonly controlUrl: string
  close(): Promise<void>
}

interface Run {
  requests: number
  /** Numbers of the connections that had this run's requests. */
  connections: number[]
  head: string
  body: Buffer
  sentBytes: number
  closed: boolean
  isOpen: boolean
  waiting: { until: (run: Run) => boolean; answer: () => void }[]
}

export async function startScriptedEngine(): Promise<ScriptedEngine> {
  const runs = new Map<string, Run>()
  const sockets = new Set<net.Socket>()
  let connections = 0
  const engine = net.createServer({ noDelay: true }, (socket) => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
    connections += 1
    new Connection(socket, connections, runs).begin()
  })
  const control = http.createServer((request, response) => answerControl(runs, request, response))
  const [engineUrl, controlUrl] = await Promise.all([listen(engine), listen(control)])
  return {
    engineUrl,
    controlUrl,
    async close() {
      for (const socket of sockets) socket.destroy()
      control.closeAllConnections()
      await Promise.all([new Promise((done) => engine.close(done)), new Promise((done) => control.close(done))])
    },
  }
}

function listen(server: net.Server): Promise<string> {
  return new Promise((resolve) => {
    server.listen(0, '127.0.0.1', () => resolve(`http://127.0.0.1:${(server.address() as AddressInfo).port}`))
  })
}

function runOf(runs: Map<string, Run>, id: string): Run {
  let run = runs.get(id)
  if (run === undefined) {
    run = {
      requests: 0,
      connections: [],
      head: '',
      body: Buffer.alloc(0),
      sentBytes: 0,
      closed: false,
      isOpen: false,
      waiting: [],
    }
    runs.set(id, run)
  }
  return run
}

function changed(run: Run): void {
  for (const waiter of run.waiting.filter(({ until }) => until(run))) {
    run.waiting.splice(run.waiting.indexOf(waiter), 1)
    waiter.answer()
  }
}

function answerControl(runs: Map<string, Run>, request: http.IncomingMessage, response: http.ServerResponse): void {
  const [, , id = '', wait = ''] = (request.url ?? '').split('/')
  const run = runOf(runs, id)
  if (wait === 'go') {
    run.isOpen = true
    changed(run)
  }
  const until =
    wait === 'closed' ? (now: Run) => now.closed : wait === 'arrived' ? (now: Run) => now.requests > 0 : () => true
  const answer = () => {
    const { requests, connections, head, sentBytes, closed } = run
    const report: RunReport = { requests, connections, head, body: run.body.toString('latin1'), sentBytes, closed }
    response.setHeader('content-type', 'application/json')
    response.end(JSON.stringify(report))
  }
  if (until(run)) answer()
  else run.waiting.push({ until, answer })
}

/** One client connection: requests in order, each served by its own script. */
class Connection {
  readonly #socket: net.Socket
  readonly #number: number
  readonly #runs: Map<string, Run>
  #received: Buffer = Buffer.alloc(0)
  #busy = false
  #run: Run | null = null
  /** Set by `reset_next`: the next request on this connection gets a reset. */
  #resetNext = false

  constructor(socket: net.Socket, number: number, runs: Map<string, Run>) {
    this.#socket = socket
    this.#number = number
    this.#runs = runs
  }

  begin(): void {
    const socket = this.#socket
    socket.on('error', () => {})
    socket.on('data', (data: Buffer) => {
      if (this.#resetNext) return void socket.resetAndDestroy()
      this.#received = Buffer.concat([this.#received, data])
      void this.#next()
    })
    socket.on('close', () => {
      if (this.#run === null) return
      this.#run.closed = true
      changed(this.#run)
    })
  }

  async #next(): Promise<void> {
    const end = this.#received.indexOf('\r\n\r\n')
    if (this.#busy || end < 0) return
    const head = this.#received.toString('latin1', 0, end)
    const length = Number(/^content-length: *(\d+)/im.exec(head)?.[1] ?? 0)
    if (this.#received.length < end + 4 + length) return
    const run = runOf(this.#runs, /^x-run: *(\S+)/im.exec(head)?.[1] ?? '')
    run.head = head
    run.body = this.#received.subarray(end + 4, end + 4 + length)
    run.requests++
    run.connections.push(this.#number)
    run.closed = false
    this.#run = run
    this.#received = this.#received.subarray(end + 4 + length)
    changed(run)
    this.#busy = true
    const script = JSON.parse(
      Buffer.from(/^x-script: *(\S+)/im.exec(head)?.[1] ?? 'W10=', 'base64').toString('latin1'),
    ) as Step[]
    for (const step of script) if (!this.#socket.destroyed) await this.#do(step, run)
    this.#busy = false
    await this.#next()
  }

  async #do(step: Step, run: Run): Promise<void> {
    const socket = this.#socket
    if ('send' in step) await this.#write(Buffer.from(step.send, 'latin1'), run)
    else if ('slices' in step) {
      const bytes = Buffer.from(step.slices, 'latin1')
      for (let at = 0; at < bytes.length; at += step.of) {
        await this.#write(bytes.subarray(at, at + step.of), run)
        await new Promise((turn) => setImmediate(turn))
      }
    } else if ('flood' in step) {
      const piece = Buffer.from(`10000\r\n${'x'.repeat(0x10000)}\r\n`)
      for (let sent = 0; sent < step.flood && !socket.destroyed; sent += 0x10000) await this.#write(piece, run)
    } else if ('waitMs' in step) await new Promise((done) => setTimeout(done, step.waitMs))
    else if ('gate' in step) {
      await new Promise<void>((answer) => {
        run.waiting.push({ until: ({ isOpen }) => isOpen, answer })
        changed(run)
      })
    } else if ('hang' in step) await new Promise((done) => socket.once('close', done))
    else if ('reset' in step) socket.resetAndDestroy()
    else if ('resetNext' in step) this.#resetNext = true
    else socket.end()
  }

  /** Resolves when the kernel has accepted the bytes, so a stopped reader delays it. */
  #write(bytes: Buffer, run: Run): Promise<void> {
    return new Promise((resolve) => {
      const done = () => {
        this.#socket.off('close', done)
        resolve()
      }
      this.#socket.once('close', done)
      this.#socket.write(bytes, (error) => {
        if (!error) run.sentBytes += bytes.length
        done()
      })
    })
  }
}
