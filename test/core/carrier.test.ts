import { expect, it } from 'vitest'
import { Carrier } from '../../src/core/carrier.ts'

it('a carrier lets one request of several send', () => {
  const carrier = new Carrier(50)
  expect([carrier.promises(120, 100), carrier.promises(125, 105), carrier.promises(300, 119)]).toEqual([
    true,
    false,
    false,
  ])
  carrier.sent()
  expect(carrier.promises(145, 121)).toBe(true)
})

it('a carrier lets the next request send if the one that promised has ended', () => {
  const carrier = new Carrier(50)
  carrier.promises(120, 100)
  expect(carrier.promises(189, 169)).toBe(false)
  expect(carrier.promises(190, 170)).toBe(true)
})

it('a carrier lets a request send that is due earlier than the promised message', () => {
  const carrier = new Carrier(50)
  carrier.promises(500, 100)
  expect(carrier.promises(110, 101)).toBe(true)
  expect(carrier.promises(500, 102)).toBe(false)
})

it('a carrier that postpones its message keeps its promise', () => {
  const carrier = new Carrier(50)
  carrier.promises(120, 100)
  carrier.postpone(160)
  expect(carrier.promises(200, 180)).toBe(false)
})
