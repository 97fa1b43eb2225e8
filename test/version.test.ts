import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { VERSION } from '../src/version.ts'

it('the gateway reports the version of its package', () => {
  const pack = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')) as { version: string }
  expect(VERSION).toBe(pack.version)
})
