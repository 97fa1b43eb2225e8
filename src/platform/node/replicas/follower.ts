import { type ClientRequest, get, type IncomingMessage } from 'node:http'
import type { ReplicaDigest } from '../../../core/contract/contract.ts'
import type { Log } from '../../../ports.ts'
import { PeerBookings, type Adopting } from './peer-bookings.ts'
import { type Answer, answerOf, type LineVerifier } from './authentication.ts'
import { LOG_PATH, LOG_TYPE } from './log-server.ts'
import { readLine, type Word, WIRE_VERSION } from './messages.ts'
/** A line holds some words, and the largest of them the blocks of one prompt. */
const LONGEST_LINE_BYTES = 64 * 2 ** 20

/** Bytes in, whole lines out. */
export class Lines {
  #parts: Buffer[] = []
  #bytes = 0

  take(chunk: Buffer): string[] {
    const last = chunk.lastIndexOf(10)
    if (last < 0) {
      this.#keep(chunk)
      return []
    }
    const whole = Buffer.concat([...this.#parts, chunk.subarray(0, last)]).toString('utf8')
    this.#parts = []
    this.#bytes = 0
    this.#keep(chunk.subarray(last + 1))
    return whole.split('\n')
  }

  #keep(rest: Buffer): void {
    if (rest.length === 0) return
    this.#bytes += rest.length
    if (this.#bytes > LONGEST_LINE_BYTES) throw new Error('a line without an end')
    this.#parts.push(rest)
  }
}

const NO_REPLICA = 'Something else listens there: `replicas.peers` must name the ports of `replicas.listen`.'
/** Who ended in order is back by then, or missed: a restart takes seconds. */
const MISSED_MS = 60_000
const ADVICE: Readonly<Record<string, string>> = {
  wrong_secret: 'Give all replicas the same `replicas.secret`.',
  unauthenticated:
    'What answers at this address does not know `replicas.secret`, and nothing of it is believed. Check what `replicas.peers` resolves to, and give all replicas the same secret.',
  no_replica: NO_REPLICA,
  status_503: 'It has too many readers.',
  other_version:
    'Its version speaks of its bookings in another way. It is tried again; run the same version everywhere.',
  unreadable: 'It says what is not understood here. It is tried again; run the same version everywhere.',
}

/** What the log says of one replica: that it came, that it went and why, each once until it has stayed for a while. */
export class PeerLog {
  readonly #log: Log
  readonly #address: string
  readonly #said = new Set<string>()
  /** It came, went and came again: whether it stays is to be seen. */
  #pending: { readonly version: string } | null = null
  #joins = 0
  /** It ended in order, and nobody has been there since. */
  #left: { readonly replica: string | null; readonly at: number } | null = null
  readonly #missedMs: number

  /** @param haste all waits are so many times shorter */
  constructor(log: Log, address: string, haste: number) {
    this.#log = log
    this.#address = address
    this.#missedMs = MISSED_MS / haste
  }

  joined(replica: string, version: string): void {
    this.#left = null
    if (++this.#joins > 2) this.#pending = { version }
    else this.#log.info('replica_joined', { address: this.#address, replica, version })
  }

  left(replica: string | null, bookings: number): void {
    this.#log.info('replica_left', { address: this.#address, replica, bookings })
    this.#left = { replica, at: performance.now() }
  }

  away(why: string, replica: string | null, error?: unknown): void {
    this.#pending = null
    const advice = ADVICE[why] ?? (why.startsWith('HPE_') ? NO_REPLICA : null)
    if (advice === null && this.#left !== null) return this.#missed(this.#left, why)
    const next =
      advice ??
      'It is tried again. Until it is back its work is not known here, and it chooses without knowing of ours.'
    this.#once(why, { replica, why, next, ...(error === undefined ? {} : { error }) })
  }

  #missed({ replica, at }: { readonly replica: string | null; readonly at: number }, why: string): void {
    if (performance.now() - at < this.#missedMs) return
    this.#once('left', {
      replica,
      why,
      next: 'It ended in order and has not come back. It is tried again; where it is to stay away, take it out of `replicas.peers`.',
    })
  }

  #once(what: string, fields: Readonly<Record<string, unknown>>): void {
    if (this.#said.has(what)) return
    this.#said.add(what)
    this.#log.warn('replica_away', { address: this.#address, ...fields })
  }

  /** It has stayed. */
  over(replica: string | null): void {
    if (this.#pending !== null) this.#log.info('replica_joined', { address: this.#address, replica, ...this.#pending })
    this.#pending = null
    this.#joins = 0
    this.#said.clear()
  }
}

/** It says something five times a second. */
const SILENT_MS = 5_000
/** Until it has said who it is. */
const CONNECT_MS = 3_000
const FIRST_WAIT_MS = 100
const LONGEST_WAIT_MS = 5_000
/** Who is lost sooner is not there again, but comes and goes. */
const STEADY_MS = 5_000
/** An address of our own stays one while it is there. */
const SELF_WAIT_MS = 60_000

export interface FollowerParts extends Adopting {
  /** Of this process: whoever answers by it is this process. */
  readonly id: string
  readonly secret: string | null
  readonly log: Log
  /** Is another one following the replica of this id? */
  readonly isFollowed: (id: string, by: Follower) => boolean
  /** Its bookings, if another one followed it; from now on they are `by`'s to end. */
  readonly handedOver: (id: string, by: Follower) => PeerBookings | null
  /** Tests: all waits are so many times shorter. */
  readonly haste: number
}

/** Reads the log of the replica at one address, for as long as the address is one. */
export class Follower {
  readonly address: string
  readonly #host: string
  readonly #port: number
  readonly #parts: FollowerParts
  readonly #complaints: PeerLog
  #adopted: PeerBookings
  #id: string | null = null
  #following = false
  /** Who answers is followed elsewhere, or is this process. */
  #isNobody = false
  #leaving = false
  #request: ClientRequest | null = null
  #timer: NodeJS.Timeout | undefined
  #silence: NodeJS.Timeout | undefined
  #waitMs = FIRST_WAIT_MS
  #renewedAt = 0
  #greetedAt = 0
  #lostAt = 0

  constructor(
    { host, port, address }: { readonly host: string; readonly port: number; readonly address: string },
    parts: FollowerParts,
  ) {
    this.address = address
    this.#host = host
    this.#port = port
    this.#parts = parts
    this.#complaints = new PeerLog(parts.log, address, parts.haste)
    this.#adopted = new PeerBookings(parts)
    this.#connect()
  }

  /** null: it is this process, or one that is followed at another address. */
  get digest(): ReplicaDigest | null {
    return this.#isNobody
      ? null
      : {
          address: this.address,
          id: this.#id,
          state: this.#following ? 'following' : 'away',
          bookings: this.#adopted.size,
        }
  }

  get id(): string | null {
    return this.#following ? this.#id : null
  }

  /** What was here answers at another address now. null: it was not here, or still is. */
  handOver(id: string): PeerBookings | null {
    if (this.#id !== id || this.#following) return null
    const adopted = this.#adopted
    this.#adopted = new PeerBookings(this.#parts)
    this.#id = null
    this.#isNobody = true
    return adopted
  }

  /** The address is no replica's any more; what is there may yet end in order. false: nothing is left to follow. */
  leave(): boolean {
    this.#leaving = true
    if (!this.#following) this.close()
    return this.#following
  }

  /** It is one again. */
  stay(): void {
    this.#leaving = false
    if (this.#request === null && this.#timer === undefined) this.#connect()
  }

  close(): void {
    clearTimeout(this.#timer)
    clearTimeout(this.#silence)
    this.#timer = undefined
    this.#leaving = true
    this.#request?.destroy()
    this.#request = null
    this.#following = false
    this.#adopted.end('abandoned')
  }

  /** @param proof answers the challenge that the first request brought */
  #connect(proof: Answer | null = null): void {
    this.#timer = undefined
    const request = get({
      host: this.#host,
      port: this.#port,
      path: LOG_PATH,
      agent: false,
      headers: proof === null ? {} : { authorization: proof.authorization },
    })
    this.#request = request
    request.setNoDelay(true)
    this.#expect(CONNECT_MS)
    request.on('response', (answer) => this.#answered(answer, proof))
    // Errors of an answer under way come as `close`, too.
    request.on('error', (error: NodeJS.ErrnoException) => this.#away(request, error.code ?? error.message))
  }

  #answered(answer: IncomingMessage, proof: Answer | null): void {
    const request = this.#request
    if (request === null) return
    const { secret } = this.#parts
    const mine = proof ?? (secret === null ? null : answerTo(answer, secret))
    if (proof === null && mine !== null) {
      this.#request = null
      request.destroy()
      return this.#connect(mine)
    }
    const refusal = refusalIn(answer) ?? (secret !== null && proof === null ? 'unauthenticated' : null)
    if (refusal !== null) {
      answer.resume()
      return this.#away(request, refusal)
    }
    const log = { lines: new Lines(), verifier: proof?.verifier ?? null }
    answer.on('data', (chunk: Buffer) => this.#read(request, log, chunk))
    answer.on('close', () => this.#away(request, 'closed'))
  }

  #read(request: ClientRequest, { lines, verifier }: ReadLog, chunk: Buffer): void {
    try {
      for (const signed of lines.take(chunk)) {
        const line = verifier === null ? signed : verifier.verify(signed)
        if (line === null) return this.#away(request, 'unauthenticated')
        for (const word of readLine(line)) if (this.#request === request) this.#receive(word)
      }
    } catch (error) {
      return this.#away(request, 'unreadable', error)
    }
    if (!this.#following) return
    this.#expect(SILENT_MS)
    this.#renew()
    if (this.#isSteady) this.#complaints.over(this.#id)
  }

  #receive(word: Word): void {
    if (word[0] === 'hello') this.#greeted(word[1])
    else if (!this.#following) throw new Error('it does not say who it is')
    else if (word[0] === 'bye') this.#left()
    else this.#adopted.receive(word)
  }

  #greeted({ wire, id, version }: Extract<Word, readonly ['hello', unknown]>[1]): void {
    const { isFollowed, handedOver } = this.#parts
    if (wire !== WIRE_VERSION) return this.#away(this.#request, 'other_version')
    const isSelf = id === this.#parts.id
    this.#isNobody = isSelf || isFollowed(id, this)
    if (this.#isNobody) return this.#away(this.#request, isSelf ? 'self' : 'twice')
    // A new life has none of the old one's streams.
    if (this.#id !== id) this.#adopted.end('abandoned')
    this.#adopted = handedOver(id, this) ?? this.#adopted
    this.#id = id
    this.#following = true
    this.#greetedAt = performance.now()
    this.#adopted.begin()
    this.#complaints.joined(id, version)
  }

  #left(): void {
    this.#complaints.left(this.#id, this.#adopted.end('abandoned'))
    this.#id = null
  }

  #renew(): void {
    const now = performance.now()
    if (now - this.#renewedAt < this.#adopted.renewMs) return
    this.#renewedAt = now
    const request = this.#request
    void this.#adopted.renew().then((known) => {
      // Forgotten here while this process slept: told again from the start.
      if (!known && this.#following) this.#away(request, 'forgotten')
    })
  }

  /** Not reached, or lost. Its bookings stay for as long as their leases: it may be the network. */
  #away(request: ClientRequest | null, why: string, error?: unknown): void {
    if (request === null || request !== this.#request) return
    this.#request = null
    request.destroy()
    clearTimeout(this.#silence)
    if (this.#following) this.#lostAt = performance.now()
    if (this.#following && this.#isSteady) this.#waitMs = FIRST_WAIT_MS
    this.#following = false
    if (this.#leaving) return this.close()
    // Nobody listens there: its process is gone, and its streams with it. Or its bookings have lapsed.
    if (why === 'ECONNREFUSED' || performance.now() - this.#lostAt > this.#adopted.longestLeaseMs)
      this.#adopted.end('abandoned')
    // In order: it said goodbye.
    if (!this.#isNobody && (why !== 'closed' || this.#id !== null)) this.#complaints.away(why, this.#id, error)
    this.#timer = setTimeout(
      () => this.#connect(),
      (why === 'self' ? SELF_WAIT_MS : this.#waitMs) / this.#parts.haste,
    ).unref()
    this.#waitMs = Math.min(LONGEST_WAIT_MS, this.#waitMs * 2)
  }

  get #isSteady(): boolean {
    return performance.now() - this.#greetedAt > STEADY_MS / this.#parts.haste
  }

  #expect(ms: number): void {
    clearTimeout(this.#silence)
    const request = this.#request
    this.#silence = setTimeout(() => this.#away(request, 'silent'), ms / this.#parts.haste).unref()
  }
}

interface ReadLog {
  readonly lines: Lines
  /** null: there is no secret, and only this machine can answer. */
  readonly verifier: LineVerifier | null
}

/** null: it is no challenge. */
function answerTo({ statusCode, headers }: IncomingMessage, secret: string): Answer | null {
  return statusCode === 401 ? answerOf(secret, headers['www-authenticate'], LOG_PATH) : null
}

function refusalIn({ statusCode, headers }: IncomingMessage): string | null {
  if (headers['content-type'] !== LOG_TYPE) return 'no_replica'
  if (statusCode === 401) return 'wrong_secret'
  return statusCode === 200 ? null : `status_${statusCode}`
}
