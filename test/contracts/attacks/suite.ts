/** Attacks on one gateway, on any runtime. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { bodies } from './bodies.ts'
import { engines } from './engines.ts'
import { framings } from './framings.ts'
import { headers } from './headers.ts'
import { keys } from './keys.ts'
import { limits } from './limits.ts'
import { paths } from './paths.ts'
import { priorities } from './priorities.ts'
import { chat, openAttackWorld, post, type AttackTable, type AttackWorld } from './attack-fixture.ts'

const ATTACKS = {
  'framings of requests': framings,
  'paths of engines': paths,
  'bodies that are read in two ways': bodies,
  'headers that an engine might obey': headers,
  'keys that are none': keys,
  'priorities that clients choose': priorities,
  'bodies that ask for too much': limits,
  'engines that turn on the gateway': engines,
}

export function attackSuite(name: string, table: AttackTable): void {
  let opened: AttackWorld
  beforeAll(async () => {
    opened = await openAttackWorld(table)
  })
  afterAll(() => opened.close())

  for (const [subject, attack] of Object.entries(ATTACKS))
    describe(`${subject}, on ${name}`, () => attack(() => opened, table))

  it(`${name} serves as before when all is over`, async () => {
    const response = await post(opened, '/v1/chat/completions', chat())
    expect([response.status, await response.text()]).toEqual([200, expect.stringContaining('WELL')])
  })
}
