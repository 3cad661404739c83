"""A receiver with FastAPI, served by uvicorn: python examples/fastapi_app.py"""

import uvicorn
from fastapi import FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import PlainTextResponse

from lumenhook_receiver import MAX_BODY_BYTES
from shop import PORT, open_shop, processed

app = FastAPI()
receiver, inbox = open_shop()


@app.post("/webhooks")
async def webhook(request: Request) -> PlainTextResponse:
    body = b""
    async for part in request.stream():  # the raw body, which nothing has parsed
        body += part
        if len(body) > MAX_BODY_BYTES:
            break
    # Write to the database in a thread, so that the server can respond to other requests.
    answer = await run_in_threadpool(receiver.receive, request.headers, body)
    return PlainTextResponse(answer.text, answer.status)


@app.get("/processed")
def show() -> dict:
    return processed(inbox)


if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=PORT)
