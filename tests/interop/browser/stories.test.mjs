// The stories of $OPERATORS, told on the page: one test each, in their order.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { CLUSTER_STORIES, STORIES } from './stories.mjs'
import { tell, TITLES } from './telling.mjs'

test('each story is told on the page', () => {
  const told = [...Object.keys(STORIES), ...Object.keys(CLUSTER_STORIES)].map(Number)
  assert.deepEqual(told.sort((a, b) => a - b), [...TITLES.keys()].sort((a, b) => a - b))
})

tell(STORIES)
