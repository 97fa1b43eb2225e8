/** A certificate that is signed by its own key: proxies of the extension encrypt, and do not verify (proposal 004). */
import { generateKeyPairSync, randomBytes, sign } from 'node:crypto'

/** Common name, and name in the certificate. */
const NAME = 'firstlight-endpoint-picker'
const VALID_MS = 10 * 365 * 24 * 3_600_000
/** Clocks of other nodes may be behind. */
const SKEW_MS = 24 * 3_600_000

/** Tags of DER. */
const TAG = { integer: 2, bits: 3, octets: 4, utf8: 12, time: 24, sequence: 48, set: 49, version: 160, extensions: 163 }

const ECDSA_SHA256 = Buffer.from('06082a8648ce3d040302', 'hex')
const COMMON_NAME = Buffer.from('0603550403', 'hex')
const ALTERNATIVE_NAME = Buffer.from('0603551d11', 'hex')
/** Tag of a DNS name in an alternative name. */
const DNS_NAME = 0x82

/** @param now milliseconds since the epoch */
export function selfSigned(now: number): { readonly cert: string; readonly key: string } {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const algorithm = der(TAG.sequence, ECDSA_SHA256)
  const name = der(TAG.sequence, der(TAG.set, der(TAG.sequence, COMMON_NAME, der(TAG.utf8, Buffer.from(NAME)))))
  const alternative = der(TAG.sequence, der(DNS_NAME, Buffer.from(NAME)))
  const content = der(
    TAG.sequence,
    der(TAG.version, der(TAG.integer, Buffer.from([2]))),
    // The first bit is the sign.
    der(TAG.integer, Buffer.concat([Buffer.from([0x40]), randomBytes(15)])),
    algorithm,
    name,
    der(TAG.sequence, timeOf(now - SKEW_MS), timeOf(now + VALID_MS)),
    name,
    publicKey.export({ type: 'spki', format: 'der' }),
    der(TAG.extensions, der(TAG.sequence, der(TAG.sequence, ALTERNATIVE_NAME, der(TAG.octets, alternative)))),
  )
  const signature = sign('sha256', content, privateKey)
  const certificate = der(TAG.sequence, content, algorithm, der(TAG.bits, Buffer.from([0]), signature))
  const lines = certificate
    .toString('base64')
    .match(/.{1,64}/g)!
    .join('\n')
  return {
    cert: `-----BEGIN CERTIFICATE-----\n${lines}\n-----END CERTIFICATE-----\n`,
    key: privateKey.export({ type: 'pkcs8', format: 'pem' }) as string,
  }
}

function der(tag: number, ...parts: readonly Uint8Array[]): Buffer {
  const content = Buffer.concat(parts)
  const { length } = content
  const size = length < 128 ? [length] : length < 256 ? [0x81, length] : [0x82, length >> 8, length & 255]
  return Buffer.concat([Buffer.from([tag, ...size]), content])
}

/** GeneralizedTime, such as 20270131180000Z. */
const timeOf = (at: number): Buffer =>
  der(TAG.time, Buffer.from(`${new Date(at).toISOString().replaceAll(/[-:T]|\..*/g, '')}Z`))
