/** Schema of HTTPS at `listen`. */
import * as z from 'zod/mini'
import { describe, strict, text } from './fields.ts'

const file = text(4096)

/** Files of the listener's certificate. They are read again when they change. */
export const tls = strict({
  cert: describe('File with the certificate and its intermediates, PEM; relative to the configuration.', file),
  key: describe('File with its private key, PEM, without a passphrase.', file),
  client_ca: describe(
    'File with the authorities of client certificates, PEM. Connections without such a certificate are refused, ' +
      'those of health checks, too. Absent: clients need none.',
    z.optional(file),
  ),
})
