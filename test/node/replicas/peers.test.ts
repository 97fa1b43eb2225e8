/** What stands where another replica is expected, and what comes to where one listens. */
import { createServer, get, type IncomingMessage, type ServerResponse } from 'node:http'
import { type AddressInfo, connect, createServer as createTcpServer, type Server, type Socket } from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'
import { ResponseAffinity } from '../../../src/api/response-affinity.ts'
import { openLog } from '../../../src/platform/node/log.ts'
import { memoryClusters, type MemoryClusters } from '../../../src/platform/node/clusters.ts'
import {
  answerOf,
  Authenticator,
  type LineSigner,
  type LineVerifier,
} from '../../../src/platform/node/replicas/authentication.ts'
import { Lines } from '../../../src/platform/node/replicas/follower.ts'
import { Replicas } from '../../../src/platform/node/replicas/replicas.ts'
import type { Cluster } from '../../../src/ports.ts'
import { admission, outcome, pool } from '../../contracts/cluster-fixtures.ts'
import { ownPorts } from '../../own-ports.ts'
import { until } from '../../wait.ts'

const HASTE = 10
const SECRET = 'hush-replica'
const NAME = ['one', 'm'] as const

type Lookup = (name: string) => Promise<readonly string[]>

class Replica {
  readonly lines: Record<string, unknown>[] = []
  readonly replicas: Replicas
  readonly books: MemoryClusters
  readonly held = new ResponseAffinity(1000)
  readonly cluster: Cluster

  constructor(
    port: number,
    peers: readonly (readonly [host: string, port: number])[],
    {
      lookup = async (name) => [name],
      secret = SECRET,
      host = '127.0.0.1',
      haste = HASTE,
    }: { readonly lookup?: Lookup; readonly secret?: string; readonly host?: string; readonly haste?: number } = {},
  ) {
    const log = openLog('debug', { write: (line) => void this.lines.push(JSON.parse(line) as Record<string, unknown>) })
    const settings = pool({ cluster: 'one', pool: 'm', leaseMs: 20_000 })
    this.books = memoryClusters({ source: () => ({ version: 1, pool: settings }) })
    this.replicas = new Replicas(
      { listen: { host, port }, peers: peers.map(([name, at]) => ({ host: name, port: at })), secret },
      { lookup, log, now: () => Date.now(), haste },
    )
    this.replicas.join({
      cluster: (...name) => this.books.cluster(...name),
      pool: (...name) => (name[1] === 'm' ? settings : null),
      held: this.held,
    })
    this.cluster = this.replicas.cluster(this.books.cluster(...NAME), NAME)
    open.push(this)
  }

  async open(): Promise<this> {
    await this.replicas.open()
    return this
  }

  said(event: string): Record<string, unknown>[] {
    return this.lines.filter((line) => line['event'] === event)
  }

  /** Where it can be read. */
  get port(): number {
    return Number(this.replicas.address!.split(':').at(-1))
  }

  get following(): number {
    return this.replicas.digests.filter(({ state }) => state === 'following').length
  }

  async bookings(): Promise<number> {
    return (await this.books.cluster(...NAME).digest()).bookings
  }

  async admit(changes: Parameters<typeof admission>[0] = {}) {
    const admitted = await this.cluster.admit(admission(changes))
    if ('refusal' in admitted) throw new Error(admitted.refusal.detail)
    return admitted.lease
  }

  async close(): Promise<void> {
    this.books.close()
    await this.replicas.close()
  }
}

const open: Replica[] = []
const servers: { close(): void; closeAllConnections?(): void }[] = []
const sockets = new Set<Socket>()

afterEach(async () => {
  for (const socket of sockets) socket.destroy()
  sockets.clear()
  for (const replica of open.splice(0)) await replica.close()
  for (const server of servers.splice(0)) {
    server.closeAllConnections?.()
    server.close()
  }
})

async function listening(server: Server): Promise<number> {
  servers.push(server)
  server.on('connection', (socket: Socket) => {
    sockets.add(socket)
    socket.on('error', () => undefined)
    socket.on('close', () => sockets.delete(socket))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return (server.address() as AddressInfo).port
}

/** Knows the secret, and answers like a replica as far as that goes. */
async function peer(
  answer: (response: ServerResponse, request: IncomingMessage) => void,
): Promise<{ readonly port: number; readonly asked: () => number }> {
  let asked = 0
  const authenticator = new Authenticator(SECRET)
  const server = createServer((request, response) => {
    const signer = authenticator.accept(request.headers.authorization, request.url!)
    if (signer === null) {
      const head = { 'content-type': 'application/x-ndjson', 'www-authenticate': authenticator.challenge() }
      return void response.writeHead(401, head).end()
    }
    asked += 1
    answer(signing(response, signer), request)
  })
  const port = await listening(server)
  return { port, asked: () => asked }
}

/** Signs whole lines; whatever else is written passes. */
function signing(response: ServerResponse, signer: LineSigner): ServerResponse {
  const [write, end] = [response.write.bind(response), response.end.bind(response)]
  const sign = (text: unknown): unknown => (typeof text === 'string' && text.endsWith('\n') ? signer.sign(text) : text)
  return Object.assign(response, {
    write: (text: unknown) => write(sign(text)),
    end: (text?: unknown) => end(sign(text)),
  })
}

const hello = (id = 'other') => `${JSON.stringify([['hello', { wire: 1, id, version: '0' }]])}\n`
const says =
  (...lines: readonly string[]) =>
  (response: ServerResponse) => {
    response.writeHead(200, { 'content-type': 'application/x-ndjson' })
    response.write(hello())
    for (const line of lines) response.write(`${line}\n`)
  }
const asked = (changes: object = {}) => ({
  version: 1,
  id: 'r',
  attempt: 0,
  model: 'm',
  adapter: null,
  promptTokens: 640,
  tokenSource: 'exact',
  blocks: '',
  priority: 0,
  expectedOutputTokens: null,
  hints: null,
  encodeItems: 0,
  ...changes,
})
const book = (changes: object = {}, placement: object = { kind: 'whole', engine: 'a', runnersUp: [] }) => [
  'book',
  NAME,
  64,
  asked(changes),
  placement,
]

const NO_PEERS: Readonly<Record<string, (response: ServerResponse) => void>> = {
  'a web site': (response) => void response.writeHead(200, { 'content-type': 'text/html' }).end('<html>'),
  'one that knows no such path': (response) => void response.writeHead(404).end(),
  'a server that wants a key': (response) => void response.writeHead(401).end(),
  'one that sends elsewhere': (response) => void response.writeHead(302, { location: 'http://127.0.0.1:1/' }).end(),
  'one that never answers': () => undefined,
  'one that never says who it is': (response) =>
    void response.writeHead(200, { 'content-type': 'application/x-ndjson' }).write('[]\n'),
  'one that does not speak JSON': says('nonsense'),
  'one that says no words': says('{"a":1}'),
  'one whose words have no name': says('[[1,2]]'),
  'one that says nothing at all': says('null'),
  'one with very deep words': says(`${'['.repeat(1_000_000)}`),
  'one of another version': (response) =>
    void response
      .writeHead(200, { 'content-type': 'application/x-ndjson' })
      .write('[["hello",{"wire":99,"id":"x","version":"9"}]]\n'),
  'one that hangs up': (response) => void response.socket!.destroy(),
  'one that comes and goes': (response) => {
    says('[]')(response)
    setTimeout(() => response.destroy(), 5)
  },
}

const WRONG: Readonly<Record<string, unknown>> = {
  'a booking of nothing': ['book'],
  'a prompt of no length': book({ promptTokens: 'many' }),
  'a prompt without end': book({ promptTokens: 1e308 }),
  'less than no prompt': book({ promptTokens: -5 }),
  'blocks that are none': book({ blocks: 7 }),
  'a placement of no kind': book({}, { kind: 'constructor' }),
  'a placement nowhere': book({}, { kind: 'staged', encode: 5, prefill: null, decode: 'a' }),
  'hints of nobody': book({ hints: [null] }),
  'no answers side by side': book({ sequences: 0 }),
  'a pool that is no name': ['book', null, 64, asked(), { kind: 'whole', engine: 'a' }],
  'a course that is none': [...book(), { firstTokenSeen: true, outputBlocks: 'far' }],
  'output without end': ['progress', 'r#0', 1e300],
  'stages that are none': ['first_token', 'r#0', null],
  'a time that is none': ['first_token', 'r#0', { ttft: 'soon' }],
  'an end without an outcome': ['release', 'r#0'],
  'an end of no kind': ['release', 'r#0', { result: 'whatever' }],
  'usage that is none': ['release', 'r#0', { result: 'complete', usage: { promptTokens: 1, completionTokens: 'x' } }],
  'a leg of no part': ['leg_done', 'r#0', 'decode', {}, null],
  'a signal of nobody': [
    'signal',
    NAME,
    { kind: 'probe', engine: 'a', at: 0, healthy: false, asleep: false, stats: null },
    1,
  ],
  'a drain of no time': ['signal', NAME, { kind: 'drain', engine: 'a', draining: true }, 'now'],
  'what nobody holds': ['held', 'resp_1', null],
  'a registry without words': ['registry', NAME, null],
}

describe('a replica', () => {
  for (const [what, answer] of Object.entries(NO_PEERS)) {
    it(`goes on beside ${what}, and says so once`, async () => {
      const { port, asked: count } = await peer(answer)
      const replica = await new Replica(0, [['127.0.0.1', port]]).open()
      await until(() => count() >= 5)
      const away = replica.said('replica_away')
      expect(away[0]).toMatchObject({ level: 'warn', next: expect.any(String) as string })
      // A machine under load may find it silent for once, too.
      const reasons = away.map(({ why }) => why)
      expect(reasons).toEqual([...new Set(reasons)])
      expect(replica.said('replica_joined').length).toBeLessThan(3)
      expect(replica.lines.length).toBeLessThan(6)
      expect(replica.replicas.digests).toHaveLength(1)
      expect(await replica.bookings()).toBe(0)
      await replica.admit()
    })
  }

  it('says whose secret is another, and what is no replica at all', async () => {
    const other = await new Replica(0, [], { secret: 'another' }).open()
    const { port } = await peer(
      (response) => void response.writeHead(401, { 'content-type': 'application/json' }).end('{}'),
    )
    const replica = await new Replica(0, [
      ['127.0.0.1', other.port],
      ['127.0.0.1', port],
    ]).open()
    await until(() => replica.said('replica_away').length === 2)
    const said = new Map(replica.said('replica_away').map(({ address, why }) => [address, why]))
    expect([said.get(`127.0.0.1:${other.port}`), said.get(`127.0.0.1:${port}`)]).toEqual(['wrong_secret', 'no_replica'])
    expect(JSON.stringify(replica.lines)).not.toMatch(/hush|another/)
  })

  it('goes on beside what speaks no HTTP, or never stops', async () => {
    const greeting = await listening(createTcpServer((socket) => void socket.write('220 mail.example.com\r\n')))
    let sent = 0
    const { port } = await peer((response) => {
      response.writeHead(200, { 'content-type': 'application/x-ndjson' })
      const more = () => {
        while (!response.destroyed && response.write('x'.repeat(1_000_000))) sent += 1
      }
      response.on('drain', more)
      more()
    })
    const replica = await new Replica(0, [
      ['127.0.0.1', greeting],
      ['127.0.0.1', port],
    ]).open()
    await until(() => replica.said('replica_away').length >= 2)
    expect(replica.said('replica_away').map(({ why }) => why)).toEqual(
      expect.arrayContaining([expect.stringMatching(/^HPE_/), expect.stringMatching(/^(?:unreadable|silent)$/)]),
    )
    expect(sent).toBeLessThan(300)
  })

  for (const [what, word] of Object.entries(WRONG)) {
    it(`takes ${what} into no books`, async () => {
      const { port, asked: count } = await peer(says(JSON.stringify([book()]), JSON.stringify([word])))
      const replica = await new Replica(0, [['127.0.0.1', port]]).open()
      await until(() => count() > 1)
      expect(replica.said('replica_away')).toMatchObject([{ why: 'unreadable' }])
      open.splice(0)
      await replica.close()
      const { bookings, engines } = await replica.books.cluster(...NAME).digest()
      expect(bookings).toBe(0)
      for (const engine of engines)
        expect(engine).toMatchObject({ requests: 0, activeBlocks: 0, queuedPrefillTokens: 0, draining: false })
      await replica.admit()
      expect(JSON.stringify(await replica.books.cluster(...NAME).digest())).not.toMatch(
        /"(?:activeBlocks|queuedPrefillS|requests)":(?:null|")/,
      )
    })
  }

  it('counts bookings on engines that it does not know, and leaves out words it does not know', async () => {
    let hang: ServerResponse
    const { port } = await peer((response) => {
      says(
        JSON.stringify([
          ['sung', 'x'],
          ['toString', 1],
          book({}, { kind: 'whole', engine: 'nobody', runnersUp: [] }),
          ['all'],
        ]),
      )(response)
      hang = response
    })
    const replica = await new Replica(0, [['127.0.0.1', port]]).open()
    await until(async () => (await replica.bookings()) === 1)
    expect((await replica.books.cluster(...NAME).digest()).engines.every(({ requests }) => requests === 0)).toBe(true)
    hang!.end('[["bye"]]\n')
    await until(async () => (await replica.bookings()) === 0)
    expect(replica.replicas.digests[0]!.bookings).toBe(0)
  })

  it('that drains an engine, or takes it back, is named in the log, once', async () => {
    const at = Date.now()
    const order = (draining: boolean, later: number): string =>
      JSON.stringify([['signal', NAME, { kind: 'drain', engine: 'a', draining }, at + later]])
    const { port, asked: count } = await peer((response) => {
      says(order(true, count()), order(true, count()))(response)
      if (count() > 2) response.write(`${order(false, count() + 1)}\n`)
      else response.end()
    })
    const replica = await new Replica(0, [['127.0.0.1', port]]).open()
    await until(() => replica.said('engine_undrained').length > 0)
    const who = { level: 'info', cluster: 'one', engine: 'a', replica: `127.0.0.1:${port}` }
    expect(replica.said('engine_draining')).toMatchObject([who])
    expect(replica.said('engine_undrained')).toMatchObject([who])
  })

  it('that ended in order is missed when it stays away for long, and no sooner', async () => {
    let answer = (response: ServerResponse): void => {
      says('[["bye"]]')(response)
      response.end()
      answer = ({ socket }) => void socket!.destroy()
    }
    const { port, asked: count } = await peer((response) => answer(response))
    const replica = await new Replica(0, [['127.0.0.1', port]], { haste: 20 }).open()
    await until(() => count() >= 5)
    expect(replica.said('replica_left')).toMatchObject([{ level: 'info', replica: 'other' }])
    expect(replica.said('replica_away')).toEqual([])
    await until(() => replica.said('replica_away').length > 0)
    const tried = count()
    await until(() => count() >= tried + 3)
    expect(replica.said('replica_away')).toMatchObject([
      { level: 'warn', next: expect.stringContaining('has not come back') as string },
    ])
  })

  it('that ended in order is told of at once where another answers in its place, or it is back', async () => {
    const answers = [says('[["bye"]]'), NO_PEERS['a web site']!, says('[]')]
    const { port, asked: count } = await peer((response) => {
      const next = answers.shift()
      next?.(response)
      if (answers.length > 0) response.end()
    })
    const replica = await new Replica(0, [['127.0.0.1', port]]).open()
    await until(() => count() >= 3 && replica.said('replica_joined').length === 2)
    expect(replica.said('replica_away')).toMatchObject([{ why: 'no_replica' }])
  })
})

const DRAIN = JSON.stringify([['signal', NAME, { kind: 'drain', engine: 'a', draining: true }, Date.now()]])
const NDJSON = { 'content-type': 'application/x-ndjson' }

describe('what answers at the address of a replica and does not know the secret', () => {
  /** Nothing of it was believed. */
  async function expectUnharmed(replica: Replica): Promise<void> {
    await until(() => replica.said('replica_away').length > 0)
    expect(replica.said('replica_away')).toMatchObject([
      { why: 'unauthenticated', next: expect.stringContaining('`replicas.secret`') as string },
    ])
    expect(replica.said('replica_joined')).toEqual([])
    const { bookings, engines } = await replica.books.cluster(...NAME).digest()
    expect(bookings).toBe(0)
    for (const engine of engines) expect(engine).toMatchObject({ requests: 0, draining: false })
  }

  /** A process of somebody else's, without the handshake of `peer`. */
  async function stranger(answer: (response: ServerResponse, request: IncomingMessage) => void): Promise<number> {
    return listening(createServer((request, response) => answer(response, request)))
  }

  it('is not shown the secret, and drains no engine', async () => {
    const shown: string[] = []
    const port = await stranger((response, { headers, url }) => {
      shown.push(JSON.stringify([headers, url]))
      says(JSON.stringify([book()]), DRAIN)(response)
    })
    await expectUnharmed(await new Replica(0, [['127.0.0.1', port]]).open())
    expect(shown.length).toBeGreaterThan(0)
    expect(shown.join()).not.toContain(SECRET)
  })

  it('drains no engine with a challenge of its own either, and learns nothing that it could show', async () => {
    const shown: string[] = []
    const own = new Authenticator('guess')
    const port = await stranger((response, { headers }) => {
      shown.push(JSON.stringify(headers))
      if (headers.authorization === undefined) {
        return void response.writeHead(401, { ...NDJSON, 'www-authenticate': own.challenge() }).end()
      }
      const signer = own.accept(headers.authorization, '/replica/log')
      expect(signer).toBeNull()
      says(DRAIN)(response)
    })
    await expectUnharmed(await new Replica(0, [['127.0.0.1', port]]).open())
    expect(shown.join()).not.toContain(SECRET)
  })

  it('cannot put a line into the log of a real replica that it passes on', async () => {
    const real = await new Replica(0, []).open()
    await real.admit()
    const port = await stranger((response, { headers, url }) => {
      const authorization = headers.authorization === undefined ? {} : { authorization: headers.authorization }
      const relayed = get({ host: '127.0.0.1', port: real.port, path: url, headers: authorization }, (answer) => {
        response.writeHead(answer.statusCode!, answer.headers)
        if (answer.statusCode === 200) response.write(`${DRAIN}\n`)
        answer.pipe(response)
      })
      relayed.on('error', () => response.destroy())
      response.on('close', () => relayed.destroy())
    })
    await expectUnharmed(await new Replica(0, [['127.0.0.1', port]]).open())
  })
})

describe('signed lines', () => {
  const TARGET = '/replica/log'

  /** Both ends of one exchange. */
  function exchange(secret = SECRET): { readonly signer: LineSigner; readonly verifier: LineVerifier } {
    const server = new Authenticator(secret)
    const { authorization, verifier } = answerOf(secret, server.challenge(), TARGET)!
    return { signer: server.accept(authorization, TARGET)!, verifier }
  }

  it('are read as they were written', () => {
    const { signer, verifier } = exchange()
    for (const line of ['[]', '[["bye"]]', '']) expect(verifier.verify(signer.sign(`${line}\n`).trimEnd())).toBe(line)
  })

  it.each([
    ['changed', ([first = '']: string[]) => first.replace('one', 'two')],
    ['left out', ([, second = '']: string[]) => second],
    ['of another exchange', () => exchange().signer.sign('["one"]')],
    ['of another secret', () => exchange('guess').signer.sign('["one"]')],
    ['without a signature', () => '["one"]'],
    ['of nothing', () => ''],
  ])('that are %s are none', (_what, of) => {
    const { signer, verifier } = exchange()
    expect(verifier.verify(of([signer.sign('["one"]'), signer.sign('["two"]')]))).toBeNull()
  })

  it('cannot be asked for with the proof of another challenge, process or target', () => {
    const [server, other] = [new Authenticator(SECRET), new Authenticator(SECRET)]
    const { authorization } = answerOf(SECRET, server.challenge(), TARGET)!
    expect(server.accept(authorization, TARGET)).not.toBeNull()
    expect(other.accept(authorization, TARGET)).toBeNull()
    expect(server.accept(authorization, '/replica/decision?id=x')).toBeNull()
    expect(server.accept(undefined, TARGET)).toBeNull()
    expect(server.accept(`Bearer ${SECRET}`, TARGET)).toBeNull()
    expect(server.accept(answerOf('guess', server.challenge(), TARGET)!.authorization, TARGET)).toBeNull()
  })
})

/** A client of `replicas.listen`. */
function raw(port: number, head: string): Socket {
  const socket = connect(port, '127.0.0.1')
  sockets.add(socket)
  socket.on('error', () => undefined)
  socket.on('close', () => sockets.delete(socket))
  socket.write(head)
  return socket
}
/** Head of a request that proves this secret. */
async function reading(port: number, secret = SECRET): Promise<string> {
  const { headers } = await fetch(`http://127.0.0.1:${port}/replica/log`)
  const { authorization } = answerOf(secret, headers.get('www-authenticate')!, '/replica/log')!
  return `GET /replica/log HTTP/1.1\r\nhost: x\r\nauthorization: ${authorization}\r\n\r\n`
}
const closed = (socket: Socket) => new Promise<void>((resolve) => void socket.resume().on('close', () => resolve()))

describe('the log of a replica', () => {
  it('is kept waiting for the end of a line only so long', () => {
    const lines = new Lines()
    const piece = Buffer.alloc(2 ** 20, 'x')
    expect(() => {
      for (let count = 0; count < 70; count++) lines.take(piece)
    }).toThrow()
  })

  it('is cut off from who does not read it, and others go on', async () => {
    const one = await new Replica(0, []).open()
    const other = await new Replica(0, [['127.0.0.1', one.port]]).open()
    const slow = raw(one.port, await reading(one.port))
    await new Promise((resolve) => slow.once('data', resolve))
    slow.pause()
    await until(() => other.following === 1)
    const blocks = new Uint32Array(100_000)
    for (let count = 0; count < 200; count++) {
      const lease = await one.admit({ promptTokens: 3_200_000, blocks })
      await lease.release(outcome())
      await new Promise((resolve) => setImmediate(resolve))
    }
    await until(() => one.said('replica_too_slow').length === 1)
    await closed(slow)
    await one.admit()
    await until(async () => (await other.bookings()) === 1)
    expect(other.said('replica_away')).toEqual([])
  })

  it('has room for its readers whoever else comes', async () => {
    const one = await new Replica(0, []).open()
    const { port } = one
    const rude = [
      ...Array.from({ length: 100 }, () => 'HEAD /replica/log HTTP/1.1\r\nhost: x\r\n\r\n'),
      ...(await Promise.all(Array.from({ length: 100 }, () => reading(port, 'guess')))),
      `GET /replica/log HTTP/1.1\r\nhost: x\r\nx: ${'y'.repeat(100_000)}\r\n\r\n`,
      'POST /replica/log HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000\r\n\r\n',
      'CONNECT a:1 HTTP/1.1\r\nhost: x\r\n\r\n',
      'GET /replica/log HTTP/1.1\r\nhost: x\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n',
      'GET //[ HTTP/1.1\r\nhost: x\r\n\r\n',
      '\u0016\u0003\u0001 TLS',
    ].map((head) => raw(port, head))
    await Promise.all(rude.map(closed))
    // They say nothing, or not all of it.
    for (let count = 0; count < 200; count++) raw(port, count % 2 === 0 ? '' : 'GET /replica/log HT')
    const heads = await Promise.all(Array.from({ length: 70 }, () => reading(port)))
    const readers = heads.map((head) => raw(port, head))
    const answers = await Promise.all(
      readers.map(
        (socket) =>
          new Promise<string>((resolve) => socket.once('data', (bytes: Buffer) => resolve(String(bytes).slice(9, 12)))),
      ),
    )
    expect([
      answers.filter((status) => status === '200').length,
      answers.filter((status) => status === '503').length,
    ]).toEqual([64, 6])
    for (const reader of readers) reader.destroy()
    const other = await new Replica(0, [['127.0.0.1', port]]).open()
    await until(() => other.following === 1)
    expect(one.lines).toHaveLength(1)
  })
})

describe('names of replicas', () => {
  it('may be of IPv6', async () => {
    const ports = ownPorts(2)
    const one = await new Replica(ports, [['::1', ports + 1]], { host: '::1' }).open()
    const other = await new Replica(ports + 1, [['::1', ports]], { host: '::1' }).open()
    await until(() => one.following + other.following === 2)
    expect(one.replicas.digests[0]!.address).toBe(`[::1]:${ports + 1}`)
  })

  it('may lead to this one, by as many addresses as they like', async () => {
    const ports = ownPorts(1)
    const lookup = async () => ['127.0.0.1', '127.0.0.2']
    const one = await new Replica(
      ports,
      [
        ['gateways', ports],
        ['localhost', ports],
      ],
      { lookup, host: '0.0.0.0' },
    ).open()
    await until(() => one.replicas.digests.length === 0)
    expect(one.said('replica_away')).toEqual([])
    expect(one.said('replica_joined')).toEqual([])
  })

  it('of one replica are one, and the second takes over its bookings when the first is gone', async () => {
    const ports = ownPorts(2)
    const at = (host: string) =>
      new Promise<Server>((resolve) => {
        // The way to it by this address.
        const way = createTcpServer((socket) => {
          const on = connect(ports, '127.0.0.9')
          for (const [from, to] of [
            [socket, on],
            [on, socket],
          ] as const) {
            sockets.add(from)
            from.on('error', () => to.destroy()).on('close', () => to.destroy())
          }
          socket.pipe(on).pipe(socket)
        })
        servers.push(way)
        way.listen(ports, host, () => resolve(way))
      })
    const one = await new Replica(ports, [], { host: '127.0.0.9' }).open()
    const way = await at('127.0.0.1')
    let looks = 0
    const other = await new Replica(
      0,
      [
        ['127.0.0.1', ports],
        ['127.0.0.2', ports],
      ],
      { lookup: async (name) => (looks++, [name]) },
    ).open()
    await until(() => other.following === 1)
    await at('127.0.0.2')
    const lease = await one.admit()
    await until(async () => (await other.bookings()) === 1)
    await until(() => other.replicas.digests.length === 1)
    way.close()
    for (const socket of sockets)
      if (socket.localAddress === '127.0.0.1' && socket.localPort === ports) socket.destroy()
    await until(() =>
      other.replicas.digests.some((digest) => digest.address.startsWith('127.0.0.2:') && digest.state === 'following'),
    )
    // The first is refused by now, and tried again and again.
    const before = looks
    await until(async () => {
      expect(await other.bookings()).toBe(1)
      return looks > before + 5
    })
    expect(other.replicas.digests).toHaveLength(1)
    await lease.release(outcome())
    await until(async () => (await other.bookings()) === 0)
  })

  it('may lose an address and have it again, though what was there has gone meanwhile', async () => {
    const ports = ownPorts(2)
    let addresses = ['127.0.0.1']
    let looks = 0
    const lookup = async () => {
      looks += 1
      return addresses
    }
    const one = await new Replica(ports, []).open()
    const other = await new Replica(0, [['gateways', ports]], { lookup }).open()
    await until(() => other.following === 1)
    addresses = []
    const before = looks
    await until(() => looks > before + 1)
    // It is followed until it goes.
    expect(other.following).toBe(1)
    // Between two looks.
    const seen = looks
    await until(() => looks > seen)
    addresses = ['127.0.0.1']
    open.splice(open.indexOf(one), 1)
    await one.close()
    const again = await new Replica(ports, []).open()
    await again.admit()
    await until(async () => other.following === 1 && (await other.bookings()) === 1)
  })

  it('whose name server answers nothing are as they were', async () => {
    const ports = ownPorts(2)
    let fails = false
    let looks = 0
    const lookup: Lookup = async () => {
      looks += 1
      if (fails) throw Object.assign(new Error('no'), { code: 'EAI_AGAIN' })
      return ['127.0.0.1']
    }
    const one = await new Replica(ports, []).open()
    const other = await new Replica(0, [['gateways', ports]], { lookup }).open()
    await until(() => other.following === 1)
    fails = true
    const before = looks
    await until(() => looks > before + 2)
    await one.admit()
    await until(async () => (await other.bookings()) === 1)
    expect(other.replicas.digests).toHaveLength(1)
  })
})
