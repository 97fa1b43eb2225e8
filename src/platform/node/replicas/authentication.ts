/**
 * Mutual authentication of replicas that share a secret, which none of them sends. The server answers a request with a
 * challenge, the client answers that with a proof, and every line of the response has a MAC under a key of this exchange.
 * A process that does not know the secret, at whatever address, can neither read a line nor write one.
 */
import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto'

const SCHEME = 'Replica'
/** The proof follows at once. */
const CHALLENGE_MS = 10_000
/** Base64url characters of a truncated HMAC-SHA256: 128 bits are left, rounded up. */
const MAC_LENGTH = 22

const macOf = (key: string | Buffer, ...parts: readonly string[]): string =>
  createHmac('sha256', key).update(parts.join('\n')).digest('base64url').slice(0, MAC_LENGTH)

const isSame = (one: string, other: string): boolean =>
  one.length === other.length && timingSafeEqual(Buffer.from(one), Buffer.from(other))

const nonce = (): string => randomBytes(16).toString('base64url')

/** What both sides know of one exchange. */
interface Exchange {
  readonly challenge: string
  /** Chosen by the client, so that no server can repeat an earlier log. */
  readonly nonce: string
}

const proofOf = (secret: string, { challenge, nonce: own }: Exchange, target: string): string =>
  macOf(secret, 'proof', challenge, own, target)

const keyOf = (secret: string, { challenge, nonce: own }: Exchange): Buffer =>
  createHmac('sha256', secret).update(['lines', challenge, own].join('\n')).digest()

/** The server's side. */
export class Authenticator {
  readonly #secret: string
  /** Marks challenges of this process, so that none has to be kept. */
  readonly #key = randomBytes(32)

  constructor(secret: string) {
    this.#secret = secret
  }

  /** Value of `www-authenticate`. */
  challenge(): string {
    const text = `${Math.ceil(performance.now() + CHALLENGE_MS)}.${nonce()}`
    return `${SCHEME} ${text}.${macOf(this.#key, text)}`
  }

  /** Returns a signer for the response; null: `authorization` proves nothing. */
  accept(authorization: string | undefined, target: string): LineSigner | null {
    const [scheme, challenge = '', own = '', proof = ''] = (authorization ?? '').split(' ')
    const [expiresMs = '', random = '', mac = ''] = challenge.split('.')
    if (scheme !== SCHEME || own === '' || !isSame(mac, macOf(this.#key, `${expiresMs}.${random}`))) return null
    const exchange = { challenge, nonce: own }
    if (Number(expiresMs) < performance.now() || !isSame(proof, proofOf(this.#secret, exchange, target))) return null
    return new LineSigner(keyOf(this.#secret, exchange))
  }
}

/** The client's answer to a challenge. */
export interface Answer {
  readonly authorization: string
  readonly verifier: LineVerifier
}

/** Answers the value of `www-authenticate`; null: it is no challenge of a replica. */
export function answerOf(secret: string, header: string | undefined, target: string): Answer | null {
  const [scheme, challenge] = (header ?? '').split(' ')
  if (scheme !== SCHEME || challenge === undefined) return null
  const exchange = { challenge, nonce: nonce() }
  const authorization = `${SCHEME} ${challenge} ${exchange.nonce} ${proofOf(secret, exchange, target)}`
  return { authorization, verifier: new LineVerifier(keyOf(secret, exchange)) }
}

/** Lines are numbered: none can be left out, repeated or moved. */
export class LineSigner {
  readonly #key: Buffer
  #count = 0

  constructor(key: Buffer) {
    this.#key = key
  }

  /** The line with its MAC in front; its end, if it has one, stays. */
  sign(line: string): string {
    return macOf(this.#key, String(this.#count++), line.trimEnd()) + line
  }
}

export class LineVerifier {
  readonly #key: Buffer
  #count = 0

  constructor(key: Buffer) {
    this.#key = key
  }

  /** The line without its MAC; null: whoever wrote it does not know the secret. */
  verify(signed: string): string | null {
    const line = signed.slice(MAC_LENGTH)
    const isGenuine = isSame(signed.slice(0, MAC_LENGTH), macOf(this.#key, String(this.#count++), line.trimEnd()))
    return isGenuine ? line : null
  }
}
