import { type ClientRequest, get, type IncomingMessage } from 'node:http'
import type { Result } from '../../../core/cluster/contract.ts'
import type { ReplicaDigest } from '../../../core/cluster/replica-digest.ts'
import type { Log } from '../../../ports.ts'
import { Adopted, type Adopting } from './adopted.ts'
import { LOG_PATH } from './log-server.ts'
import { Lines } from './lines.ts'
import { type Word, WIRE_VERSION } from './words.ts'

/** It says something five times a second. */
const SILENT_MS = 5_000
const CONNECT_MS = 3_000
const FIRST_WAIT_MS = 100
const LONGEST_WAIT_MS = 5_000
/** An address of our own stays one while it is there. */
const SELF_WAIT_MS = 60_000
/** Its bookings have lapsed by then, however long leases are made. */
const LOST_MS = 600_000

export interface FollowerParts extends Adopting {
  /** Of this process: whoever answers by it is this process. */
  readonly id: string
  readonly secret: string | null
  readonly log: Log
  /** Is another one following the replica of this id? */
  readonly isFollowed: (id: string, by: Follower) => boolean
}

/** Reads the log of the replica at one address, for as long as the address is one. */
export class Follower {
  readonly address: string
  readonly #host: string
  readonly #port: number
  readonly #parts: FollowerParts
  readonly #adopted: Adopted
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
  #lostAt = 0
  #complained = ''

  constructor({ host, port, address }: { readonly host: string; readonly port: number; readonly address: string }, parts: FollowerParts) {
    this.address = address
    this.#host = host
    this.#port = port
    this.#parts = parts
    this.#adopted = new Adopted(parts)
    this.#connect()
  }

  /** null: it is this process, or one that is followed at another address. */
  get digest(): ReplicaDigest | null {
    return this.#isNobody ? null : { address: this.address, id: this.#id, state: this.#following ? 'following' : 'away', bookings: this.#adopted.size }
  }

  get id(): string | null {
    return this.#following ? this.#id : null
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
  }

  close(): void {
    clearTimeout(this.#timer)
    clearTimeout(this.#silence)
    this.#leaving = true
    this.#request?.destroy()
    this.#request = null
    this.#following = false
    this.#adopted.end('abandoned')
  }

  #connect(): void {
    const { secret } = this.#parts
    const request = get({ host: this.#host, port: this.#port, path: LOG_PATH, agent: false, headers: secret === null ? {} : { authorization: `Bearer ${secret}` } })
    this.#request = request
    request.setNoDelay(true)
    this.#expect(CONNECT_MS)
    request.on('response', (answer) => this.#answered(answer))
    // Errors of an answer under way come as `close`, too.
    request.on('error', (error: NodeJS.ErrnoException) => this.#away(request, error.code ?? error.message))
  }

  #answered(answer: IncomingMessage): void {
    const request = this.#request
    if (request === null) return
    if (answer.statusCode !== 200) {
      answer.resume()
      return this.#away(request, answer.statusCode === 401 ? 'wrong_secret' : `status_${answer.statusCode}`)
    }
    const lines = new Lines()
    answer.on('data', (chunk: Buffer) => {
      if (this.#request !== request) return
      try {
        this.#expect(SILENT_MS)
        for (const line of lines.take(chunk)) this.#line(JSON.parse(line) as readonly Word[])
        this.#renew()
      } catch (error) {
        this.#parts.log.error('replica_unreadable', { address: this.address, error })
        this.#away(request, 'unreadable')
      }
    })
    answer.on('close', () => this.#away(request, 'closed'))
  }

  #line(words: readonly Word[]): void {
    for (const word of words) {
      if (word[0] === 'hello') this.#greeted(word[1])
      else if (word[0] === 'bye') this.#left()
      else if (this.#following) this.#adopted.hear(word)
    }
  }

  #greeted({ wire, id, version }: Extract<Word, readonly ['hello', unknown]>[1]): void {
    const { log, isFollowed } = this.#parts
    if (wire !== WIRE_VERSION) return this.#away(this.#request, 'other_version')
    const isSelf = id === this.#parts.id
    this.#isNobody = isSelf || isFollowed(id, this)
    if (this.#isNobody) return this.#away(this.#request, isSelf ? 'self' : 'twice')
    // A new life has none of the old one's streams.
    if (this.#id !== null && this.#id !== id) this.#end('abandoned')
    this.#id = id
    this.#following = true
    this.#complained = ''
    this.#waitMs = FIRST_WAIT_MS
    this.#adopted.begin()
    log.info('replica_joined', { address: this.address, replica: id, version })
  }

  #left(): void {
    const bookings = this.#end('abandoned')
    this.#parts.log.info('replica_left', { address: this.address, replica: this.#id, bookings })
    this.#id = null
  }

  #end(result: Result): number {
    return this.#adopted.end(result)
  }

  #renew(): void {
    const now = performance.now()
    if (now - this.#renewedAt < this.#adopted.renewMs) return
    this.#renewedAt = now
    void this.#adopted.renew().then((known) => {
      // Forgotten here while this process slept: told again from the start.
      if (!known && this.#following) this.#away(this.#request, 'forgotten')
    })
  }

  /** Not reached, or lost. Its bookings stay for as long as their leases: it may be the network. */
  #away(request: ClientRequest | null, why: string): void {
    if (request === null || request !== this.#request) return
    this.#request = null
    request.destroy()
    clearTimeout(this.#silence)
    if (this.#following) this.#lostAt = performance.now()
    this.#following = false
    if (this.#leaving) return this.close()
    // Nobody listens there: its process is gone, and its streams with it.
    if (why === 'ECONNREFUSED' || performance.now() - this.#lostAt > LOST_MS) this.#end('abandoned')
    this.#complain(why)
    const waitMs = why === 'self' ? SELF_WAIT_MS : this.#waitMs
    this.#waitMs = Math.min(LONGEST_WAIT_MS, this.#waitMs * 2)
    this.#timer = setTimeout(() => this.#connect(), waitMs).unref()
  }

  #complain(why: string): void {
    if (this.#isNobody || why === this.#complained || (why === 'closed' && this.#id === null)) return
    this.#complained = why
    const next = ADVICE[why] ?? 'It is tried again. Until it is back its work is not known here, and it chooses without knowing of ours.'
    this.#parts.log.warn('replica_away', { address: this.address, replica: this.#id, why, next })
  }

  #expect(ms: number): void {
    clearTimeout(this.#silence)
    const request = this.#request
    this.#silence = setTimeout(() => this.#away(request, 'silent'), ms).unref()
  }
}

const ADVICE: Readonly<Record<string, string>> = {
  wrong_secret: 'Give all replicas the same `replicas.secret`.',
  status_404: 'Something else listens there: `replicas.peers` must name the ports of `replicas.listen`.',
  status_503: 'It has too many readers.',
  other_version: 'Its version speaks of its bookings in another way. It is tried again; run the same version everywhere.',
}
