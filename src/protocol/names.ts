/** The identifiers of the protocol and their patterns. */

export const HOST_NAME_PATTERN = '^[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$';
export const OWNER_FP_PATTERN = '^[A-Za-z0-9._:+/=@-]{0,64}$';
export const ITEM_ID_CHARACTERS_MAX = 320;

const MESSAGE_ID = '[A-Za-z0-9._-]{1,128}';
const AGENT_NAME = '[A-Za-z0-9][A-Za-z0-9._-]{0,63}';
const HOST_NAME = HOST_NAME_PATTERN.slice(1, -1);
const messageIdPattern = new RegExp(`^${MESSAGE_ID}$`);
export const AGENT_NAME_PATTERN = `^${AGENT_NAME}$`;
const agentNamePattern = new RegExp(AGENT_NAME_PATTERN);
const receiptIdPattern = new RegExp(`^receipt:(${MESSAGE_ID}):(${AGENT_NAME}@${HOST_NAME}):(0|[1-9][0-9]{0,15})$`);
const hostNamePattern = new RegExp(HOST_NAME_PATTERN);

declare const hostNameBrand: unique symbol;
/** A host name as its owner wrote it. To compare two, compare what `foldHostName` returns. */
export type HostName = string & { readonly [hostNameBrand]: true };

export function parseHostName(text: string): HostName | undefined {
  return hostNamePattern.test(text) ? (text as HostName) : undefined;
}

/** Host names are compared lowercased. */
export function foldHostName(name: string): string {
  return name.toLowerCase();
}

/** Says whether this is a valid agent name. Agent names are compared lowercased, as host names are. */
export function isAgentName(text: string): boolean {
  return agentNamePattern.test(text);
}

declare const itemIdBrand: unique symbol;
/** A message id, or `receipt:<msg>:<recipient>:<seq>`, or `expired:<msg>:<target_pubkey>`. ASCII. */
export type ItemId = string & { readonly [itemIdBrand]: true };

/** The id of an envelope item: the message id. */
export function parseMessageId(text: string): ItemId | undefined {
  return messageIdPattern.test(text) ? (text as ItemId) : undefined;
}

/** The id of a receipt item; its sequence number must be a safe integer. */
export function parseReceiptId(text: string): ItemId | undefined {
  const seq = receiptIdPattern.exec(text)?.[3];
  return seq !== undefined && Number.isSafeInteger(Number(seq)) ? (text as ItemId) : undefined;
}
