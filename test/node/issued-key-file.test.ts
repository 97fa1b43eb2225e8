import { mkdtemp, readFile, rm, stat, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { decodeIssuedKey } from '../../src/core/keys/issued-key.ts'
import { IssuedKeyFile } from '../../src/platform/node/issued-key-file.ts'

const keyOf = (name: string) => decodeIssuedKey({ name, sha256: 'a'.repeat(64), createdAt: 1 })!

let folder: string
let path: string
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'issued-key-file-'))
  path = join(folder, 'keys.json')
})
afterEach(() => rm(folder, { recursive: true }))

const namesIn = async (file: IssuedKeyFile) => (await file.read(null))!.keys.map(({ name }) => name)

it('a file that does not exist has no keys', async () => {
  const file = new IssuedKeyFile(path)
  const { version, keys } = (await file.read(null))!
  expect(keys).toEqual([])
  expect(await file.read(version)).toBeNull()
})

it('changes of several processes at the same time are all kept', async () => {
  const files = [new IssuedKeyFile(path), new IssuedKeyFile(path), new IssuedKeyFile(path)]
  const names = Array.from({ length: 12 }, (_, at) => `k${at}`)
  await Promise.all(names.map((name, at) => files[at % 3]!.add(keyOf(name))))
  expect((await namesIn(files[0]!)).toSorted()).toEqual(names.toSorted())
})

it('a name is added once, by whichever process is first', async () => {
  const files = [new IssuedKeyFile(path), new IssuedKeyFile(path)]
  const added = await Promise.all(files.map((file) => file.add(keyOf('ada'))))
  expect(added.toSorted()).toEqual([false, true])
})

it('a change gives the file a version that others see', async () => {
  const [own, other] = [new IssuedKeyFile(path), new IssuedKeyFile(path)]
  await own.add(keyOf('ada'))
  const { version } = (await other.read(null))!
  expect(await other.read(version)).toBeNull()
  await own.remove('ada')
  expect((await other.read(version))!.keys).toEqual([])
  expect(await own.remove('ada')).toBe(false)
})

it('only its owner may read the file', async () => {
  await new IssuedKeyFile(path).add(keyOf('ada'))
  expect((await stat(path)).mode & 0o077).toBe(0)
})

it('the lock of a process that has ended does not last', async () => {
  await writeFile(`${path}.lock`, '')
  const before = new Date(Date.now() - 60_000)
  await utimes(`${path}.lock`, before, before)
  expect(await new IssuedKeyFile(path).add(keyOf('ada'))).toBe(true)
})

it('a damaged file is reported and stays as it is', async () => {
  await writeFile(path, '{ half')
  const file = new IssuedKeyFile(path)
  await expect(file.read(null)).rejects.toThrow('JSON')
  await expect(file.add(keyOf('ada'))).rejects.toThrow('JSON')
  expect(await readFile(path, 'utf8')).toBe('{ half')
})
