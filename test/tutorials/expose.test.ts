import { spawnSync } from 'node:child_process'
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { localhost } from '../kit/localhost-certificate.ts'
import { testNodePage } from './node-page.ts'

const hasOpenssl = spawnSync('openssl', ['version']).status === 0

/** Stands for openssl where there is none: writes a certificate for localhost. */
function standIn(folder: string, path: string): string {
  const bin = join(folder, 'bin')
  mkdirSync(bin)
  writeFileSync(join(folder, 'localhost.key'), localhost.key)
  writeFileSync(join(folder, 'localhost.crt'), localhost.cert)
  writeFileSync(
    join(bin, 'openssl'),
    '#!/bin/sh\ncp localhost.key tls/gateway.key && cp localhost.crt tls/gateway.crt\n',
  )
  chmodSync(join(bin, 'openssl'), 0o755)
  return `${bin}:${path}`
}

testNodePage('expose.md', hasOpenssl ? undefined : standIn)
