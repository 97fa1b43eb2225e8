import { expect, it } from 'vitest'
import { PoolState } from '../../../src/core/pool/pool-state.ts'
import { admission, engine, pool, probe } from '../../kit/pool-fixtures.ts'

function open() {
  const state = new PoolState({ random: () => 0, epoch: 'e' })
  state.configure(1, pool({ engines: [engine('a')] }), 0)
  const awayAt = (now: number) => {
    const admitted = state.admit(admission(), now)
    return 'refusal' in admitted ? admitted.refusal.away : null
  }
  return { state, awayAt }
}

it('an engine that was found asleep stays so if a check that began before found it awake', () => {
  const { state, awayAt } = open()
  state.observe([probe('a', 1_000, { sentAt: 1_000, asleep: true })], 1_000)
  state.observe([probe('a', 1_010, { sentAt: 990 })], 1_010)
  expect(awayAt(1_011)).toBe('gone')
  state.observe([probe('a', 1_030, { sentAt: 1_020 })], 1_030)
  expect(awayAt(1_031)).toBeNull()
})

it('an engine that was found awake stays so if a check that began before found it asleep', () => {
  const { state, awayAt } = open()
  state.observe([probe('a', 1_000, { sentAt: 1_000, asleep: true })], 1_000)
  state.observe([probe('a', 1_030, { sentAt: 1_020 })], 1_030)
  state.observe([probe('a', 1_040, { sentAt: 1_010, asleep: true })], 1_040)
  expect(awayAt(1_041)).toBeNull()
})

it('an engine whose request was refused because it sleeps is asleep, though a check that began before ended later', () => {
  const { state, awayAt } = open()
  state.observe([probe('a', 1_005, { sentAt: 990 })], 1_005)
  state.observe([probe('a', 1_000, { sentAt: 1_000, asleep: true })], 1_006)
  expect(awayAt(1_007)).toBe('gone')
})

it('a gateway whose clock is ahead keeps no engine asleep', () => {
  const { state, awayAt } = open()
  state.observe([probe('a', 9_000, { sentAt: 9_000, asleep: true })], 1_000)
  state.observe([probe('a', 1_030, { sentAt: 1_020 })], 1_030)
  expect(awayAt(1_031)).toBeNull()
})
